// SPDX-License-Identifier: Apache-2.0
#include "backend/tier_choice.h"

#include <charconv>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "backend/directory_tier.h"

namespace verbena::backend {
namespace {

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

template <typename Opened>
Result<std::unique_ptr<Tier>> as_tier(Opened opened) {
  if (!opened) return fail(opened.error());
  return std::unique_ptr<Tier>(std::move(*opened));
}

}  // namespace

Parsed parse_tier(const std::string& text) {
  std::string_view rest = text;
  const std::string_view kind = take_until(rest, ':');
  if (kind == "dir" && !rest.empty()) return DirectoryChoice{std::string(rest)};
  if (kind == "rados") return parse_rados(rest);
  return fail(fmt::format(
      "'{}' is neither dir:PATH nor rados:POOL[/NAMESPACE][?conf=FILE&user=NAME]", text));
}

Result<std::unique_ptr<Tier>> open_tier(const TierChoice& choice) {
  if (const auto* const directory = std::get_if<DirectoryChoice>(&choice)) {
    return as_tier(DirectoryTier::open(directory->path));
  }
  return as_tier(RadosTier::open(std::get<RadosOptions>(choice)));
}

}  // namespace verbena::backend
