// SPDX-License-Identifier: Apache-2.0
#include "backend/tier_choice.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "backend/directory_tier.h"
#include "backend/object_path.h"

namespace verbena::backend {
namespace {

constexpr size_t kMaxPrefixBytes = 500;

using Parsed = verbena::Result<TierChoice, std::string>;

// What is before the separator; what is behind it stays.
std::string_view take_until(std::string_view& text, char separator) {
  const size_t at = text.find(separator);
  const std::string_view before = text.substr(0, at);
  text = at == std::string_view::npos ? std::string_view{} : text.substr(at + 1);
  return before;
}

std::optional<uint32_t> parse_seconds(const std::string& text) {
  uint32_t seconds = 0;
  const char* const end = text.data() + text.size();
  const auto [after, error] = std::from_chars(text.data(), end, seconds);
  if (error != std::errc{} || after != end || seconds < 2 || seconds > 3600) return std::nullopt;
  return seconds;
}

Parsed parse_rados(std::string_view text) {
  RadosOptions rados;
  std::string_view place = take_until(text, '?');
  rados.pool = take_until(place, '/');
  rados.name_space = place;
  if (rados.pool.empty()) return fail(std::string("the pool is missing: rados:POOL"));
  while (!text.empty()) {
    std::string_view value = take_until(text, '&');
    const std::string_view key = take_until(value, '=');
    if (value.empty()) return fail(fmt::format("'{}' has no value", key));
    if (key == "conf") {
      rados.conf = value;
    } else if (key == "user") {
      rados.user = value;
    } else if (key == "timeout" || key == "lease") {
      const auto seconds = parse_seconds(std::string(value));
      if (!seconds) return fail(fmt::format("{}: '{}' is not a number from 2 to 3600", key, value));
      (key == "lease" ? rados.lease_s : rados.operation_timeout_s) = *seconds;
    } else {
      return fail(fmt::format("'{}' is none of conf, user, timeout and lease", key));
    }
  }
  return rados;
}

// Keys are signed as they are: what would have to be escaped in an address is refused.
bool is_endpoint(std::string_view text) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!text.starts_with(scheme) || text.size() == scheme.size()) continue;
    return std::ranges::all_of(text.substr(scheme.size()), [](char letter) {
      return std::isalnum(static_cast<unsigned char>(letter)) != 0 ||
             std::string_view(".-_:[]").contains(letter);
    });
  }
  return false;
}

bool is_bucket(std::string_view text) {
  return text.size() >= 3 && text.size() <= 63 && std::ranges::all_of(text, [](char letter) {
           return std::isalnum(static_cast<unsigned char>(letter)) != 0 ||
                  std::string_view(".-_").contains(letter);
         });
}

std::string set_s3(S3Options& s3, std::string_view key, std::string_view value) {
  if (key == "endpoint") {
    if (!is_endpoint(value)) return fmt::format("'{}' is not https://HOST[:PORT]", value);
    s3.endpoint = value;
  } else if (key == "region") {
    const bool plain = std::ranges::all_of(value, [](char letter) {
      return std::isalnum(static_cast<unsigned char>(letter)) != 0 || letter == '-';
    });
    if (!plain) return fmt::format("'{}' is not a region", value);
    s3.region = value;
  } else if (key == "style") {
    if (value != "path" && value != "host")
      return fmt::format("style: '{}' is neither path nor host", value);
    s3.bucket_in_host = value == "host";
  } else if (key == "timeout" || key == "lease") {
    const auto seconds = parse_seconds(std::string(value));
    if (!seconds) return fmt::format("{}: '{}' is not a number from 2 to 3600", key, value);
    (key == "lease" ? s3.lease_s : s3.timeout_s) = *seconds;
  } else {
    return fmt::format("'{}' is none of endpoint, region, style, timeout and lease", key);
  }
  return {};
}

Parsed parse_s3(std::string_view text) {
  S3Options s3;
  std::string_view place = take_until(text, '?');
  s3.bucket = take_until(place, '/');
  s3.prefix = place;
  if (s3.bucket.empty()) {
    return fail(std::string("the bucket is missing: s3:BUCKET[/PREFIX]?endpoint=URL"));
  }
  if (!is_bucket(s3.bucket)) {
    return fail(fmt::format(
        "'{}' is not the name of a bucket: 3 to 63 letters, digits, '-', '.' and '_'", s3.bucket));
  }
  if (s3.prefix.size() > kMaxPrefixBytes) {
    return fail(fmt::format("the prefix has {} bytes, and may have {}, since a key has 1024",
                            s3.prefix.size(), kMaxPrefixBytes));
  }
  if (!s3.prefix.empty() && !plain_path(s3.prefix)) {
    return fail(fmt::format("'{}' is not a prefix: names with '/' between them", s3.prefix));
  }
  while (!text.empty()) {
    std::string_view value = take_until(text, '&');
    const std::string_view key = take_until(value, '=');
    if (value.empty()) return fail(fmt::format("'{}' has no value", key));
    if (auto wrong = set_s3(s3, key, value); !wrong.empty()) return fail(std::move(wrong));
  }
  if (s3.endpoint.empty())
    return fail(std::string("the service is missing: ?endpoint=https://HOST"));
  return s3;
}

template <typename Opened>
Result<std::unique_ptr<Tier>> as_tier(Opened opened) {
  if (!opened) return fail(opened.error());
  return std::unique_ptr<Tier>(std::move(*opened));
}

}  // namespace

Parsed parse_tier(const std::string& text) {
  std::string_view rest = text;
  const std::string_view kind = take_until(rest, ':');
  if (kind == "dir" && rest.empty()) return fail(std::string("the path is missing: dir:PATH"));
  if (kind == "dir") return DirectoryChoice{std::string(rest)};
  if (kind == "rados") return parse_rados(rest);
  if (kind == "s3") return parse_s3(rest);
  return fail(
      fmt::format("'{}' is none of dir:PATH, rados:POOL[/NAMESPACE][?conf=FILE&user=NAME] and "
                  "s3:BUCKET[/PREFIX]?endpoint=URL",
                  text));
}

Result<std::unique_ptr<Tier>> open_tier(const TierChoice& choice) {
  if (const auto* const directory = std::get_if<DirectoryChoice>(&choice)) {
    return as_tier(DirectoryTier::open(directory->path));
  }
  if (const auto* const pool = std::get_if<RadosOptions>(&choice)) {
    return as_tier(RadosTier::open(*pool));
  }
  return as_tier(S3Tier::open(std::get<S3Options>(choice)));
}

}  // namespace verbena::backend
