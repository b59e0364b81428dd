// SPDX-License-Identifier: Apache-2.0
#include "backend/s3_format.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>

#include <fmt/format.h>
#include <openssl/evp.h>

#include "backend/object_path.h"
#include "base/check.h"
#include "base/endian.h"
#include "store/record.h"

namespace verbena::backend {
namespace {

constexpr const char* kVersionHeader = "x-amz-meta-verbena-version";
constexpr const char* kSizeHeader = "x-amz-meta-verbena-size";
constexpr const char* kModifiedHeader = "x-amz-meta-verbena-modified";
constexpr const char* kIdHeader = "x-amz-meta-verbena-id";
constexpr const char* kKeyHeader = "x-amz-meta-verbena-key";
constexpr size_t kDigits = 16;
constexpr size_t kS3DigestDigits = 32;

template <typename Number>
[[nodiscard]] std::optional<Number> parse_number(std::string_view text, int base) {
  Number value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

// 16 small digits, and nothing else.
[[nodiscard]] std::optional<uint64_t> parse_hex(std::string_view text) {
  const auto value = parse_number<uint64_t>(text, 16);
  if (!value || fmt::format("{:016x}", *value) != text) return std::nullopt;
  return value;
}

[[nodiscard]] bool is_unreserved(char letter) {
  return (letter >= 'a' && letter <= 'z') || (letter >= 'A' && letter <= 'Z') ||
         (letter >= '0' && letter <= '9') || letter == '-' || letter == '.' || letter == '_' ||
         letter == '~';
}

[[nodiscard]] std::string value_of(const S3Headers& headers, const char* name) {
  const auto found = headers.find(name);
  return found == headers.end() ? std::string() : found->second;
}

[[nodiscard]] uint64_t adopted_version(const std::string& etag, uint64_t size) {
  const std::string text = fmt::format("{} {}", etag, size);
  std::array<uint8_t, EVP_MAX_MD_SIZE> digest{};
  VERBENA_CHECK(
      EVP_Digest(text.data(), text.size(), digest.data(), nullptr, EVP_sha256(), nullptr) == 1);
  return std::max<uint64_t>(load_be64(digest.data()), 1);
}

// The line after "NAME ".
[[nodiscard]] std::optional<std::string_view> take_line(std::string_view& text,
                                                        std::string_view name) {
  const size_t end = text.find('\n');
  if (end == std::string_view::npos || !text.starts_with(name)) return std::nullopt;
  const std::string_view line = text.substr(name.size(), end - std::min(end, name.size()));
  text.remove_prefix(end + 1);
  return line;
}

constexpr std::array<const char*, 3> kLeaseStates{"held", "released", "closed"};

}  // namespace

std::string url_encoded(std::string_view text, bool keep_slashes) {
  std::string encoded;
  for (const char letter : text) {
    if (is_unreserved(letter) || (keep_slashes && letter == '/')) {
      encoded += letter;
    } else {
      encoded += fmt::format("%{:02X}", static_cast<uint8_t>(letter));
    }
  }
  return encoded;
}

std::optional<std::string> url_decoded(std::string_view text) {
  std::string decoded;
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '+') {  // some services encode a space so
      decoded += ' ';
    } else if (text[at] != '%') {
      decoded += text[at];
    } else {
      const auto byte =
          text.size() - at < 3 ? std::nullopt : parse_number<uint8_t>(text.substr(at + 1, 2), 16);
      if (!byte) return std::nullopt;
      decoded += static_cast<char>(*byte);
      at += 2;
    }
  }
  return decoded;
}

std::string s3_path_of(const Key& key) {
  if (key.name.empty()) return id_path(key.id);
  if (auto plain = plain_path(key.name)) return *plain;
  return escaped_path(key.name);
}

std::optional<Key> key_of_s3_path(std::string_view path) {
  Key key;
  if (const auto id = id_of_path(path)) {
    key.id = *id;
  } else if (auto name = name_of_escaped(path)) {
    key.name = std::move(*name);
  } else {
    key.name = path;
  }
  if (!store::good_name(key.name) || s3_path_of(key) != path) return std::nullopt;
  return key;
}

std::string text_of(const S3Version& version) {
  return fmt::format("{}-{:016x}", version.digest, version.version);
}

std::optional<S3Version> parse_s3_version(std::string_view text) {
  if (text.size() != kS3DigestDigits + 1 + kDigits || text[kS3DigestDigits] != '-')
    return std::nullopt;
  const auto high = parse_hex(text.substr(0, kDigits));
  const auto low = parse_hex(text.substr(kDigits, kDigits));
  const auto version = parse_hex(text.substr(kS3DigestDigits + 1));
  if (!high || !low || !version) return std::nullopt;
  return S3Version{std::string(text.substr(0, kS3DigestDigits)), *version};
}

S3Headers metadata_of(const Key& key, const State& state) {
  return {{kVersionHeader, fmt::format("{:016x}", state.version)},
          {kSizeHeader, fmt::format("{}", state.size)},
          {kModifiedHeader, fmt::format("{}", state.modified_ns)},
          {kIdHeader, fmt::format("{:016x}-{:016x}", key.id.high, key.id.low)},
          {kKeyHeader, digest_of(key)}};
}

verbena::Result<S3Head, std::string> parse_s3_head(const S3Headers& headers, uint64_t size,
                                                   const std::string& digest) {
  S3Head head;
  head.etag = value_of(headers, "etag");
  head.state.size = size;
  if (head.etag.empty()) return fail(std::string("the object has no ETag"));
  if (!headers.contains(kVersionHeader) || value_of(headers, kKeyHeader) != digest) {
    head.adopted = true;
    head.state.version = adopted_version(head.etag, size);
    const auto modified = parse_http_date(value_of(headers, "last-modified"));
    head.state.modified_ns =
        static_cast<uint64_t>(std::max<int64_t>(modified.value_or(0), 0)) * 1'000'000'000;
    return head;
  }
  const std::string id = value_of(headers, kIdHeader);
  const auto version = parse_hex(value_of(headers, kVersionHeader));
  const auto modified = parse_number<uint64_t>(value_of(headers, kModifiedHeader), 10);
  const auto written = parse_decimal(value_of(headers, kSizeHeader));
  const bool shaped = id.size() == 2 * kDigits + 1 && id[kDigits] == '-';
  const auto high = shaped ? parse_hex(std::string_view(id).substr(0, kDigits)) : std::nullopt;
  const auto low = shaped ? parse_hex(std::string_view(id).substr(kDigits + 1)) : std::nullopt;
  if (!version || *version == 0 || !modified || !written || !high || !low) {
    return fail(std::string("its metadata are damaged"));
  }
  if (*written != size) {
    return fail(fmt::format("it has {} bytes, and was written with {}", size, *written));
  }
  head.state.version = *version;
  head.state.modified_ns = *modified;
  head.id = {*high, *low};
  return head;
}

std::optional<int64_t> parse_http_date(std::string_view text) {
  constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
  constexpr std::string_view kShape = "Sun, 06 Nov 1994 08:49:37 GMT";
  if (text.size() != kShape.size() || !text.ends_with(" GMT") || text[3] != ',')
    return std::nullopt;
  const auto number = [&](size_t at, size_t digits) {
    return parse_number<unsigned>(text.substr(at, digits), 10);
  };
  const auto day = number(5, 2);
  const size_t month = kMonths.find(text.substr(8, 3));
  const auto year = number(12, 4);
  const auto hour = number(17, 2);
  const auto minute = number(20, 2);
  const auto second = number(23, 2);
  if (!day || !year || !hour || !minute || !second || month == std::string_view::npos ||
      month % 3 != 0 || *hour > 23 || *minute > 59 || *second > 60) {
    return std::nullopt;
  }
  const std::chrono::year_month_day date{std::chrono::year(static_cast<int>(*year)),
                                         std::chrono::month(static_cast<unsigned>(month / 3 + 1)),
                                         std::chrono::day(*day)};
  if (!date.ok()) return std::nullopt;
  const auto days = std::chrono::sys_days(date).time_since_epoch().count();
  return int64_t{days} * 86'400 + *hour * 3'600 + *minute * 60 + *second;
}

std::optional<uint64_t> parse_decimal(std::string_view text) {
  const auto value = parse_number<uint64_t>(text, 10);
  if (!value || (*value >> 63) != 0) return std::nullopt;
  return value;
}

std::optional<ContentRange> parse_content_range(std::string_view text) {
  constexpr std::string_view kUnit = "bytes ";
  const size_t dash = text.find('-');
  const size_t slash = text.find('/');
  if (!text.starts_with(kUnit) || dash == std::string_view::npos ||
      slash == std::string_view::npos || dash > slash) {
    return std::nullopt;
  }
  const auto first = parse_decimal(text.substr(kUnit.size(), dash - kUnit.size()));
  const auto last = parse_decimal(text.substr(dash + 1, slash - dash - 1));
  const auto size = parse_decimal(text.substr(slash + 1));
  if (!first || !last || !size || *first > *last || *last >= *size) return std::nullopt;
  return ContentRange{*first, *last, *size};
}

std::string text_of(const S3LeaseText& lease) {
  return fmt::format("verbena lease 1\nstate {}\nowner {}\nwhere {}\nseconds {}\nrenewed {}\n",
                     kLeaseStates[static_cast<size_t>(lease.state)], lease.owner, lease.where,
                     lease.lease_s, lease.renewed);
}

std::optional<S3LeaseText> parse_s3_lease(std::string_view text) {
  if (!take_line(text, "verbena lease 1")) return std::nullopt;
  const auto state = take_line(text, "state ");
  const auto owner = take_line(text, "owner ");
  const auto where = take_line(text, "where ");
  const auto seconds = take_line(text, "seconds ");
  const auto renewed = take_line(text, "renewed ");
  if (!state || !owner || !where || !seconds || !renewed || !text.empty()) return std::nullopt;
  const auto* const known = std::ranges::find(kLeaseStates, *state);
  const auto lease_s = parse_number<uint32_t>(*seconds, 10);
  const auto count = parse_number<uint64_t>(*renewed, 10);
  if (known == kLeaseStates.end() || !lease_s || !count) return std::nullopt;
  return S3LeaseText{.state = static_cast<S3LeaseText::State>(known - kLeaseStates.begin()),
                     .owner = std::string(*owner),
                     .where = std::string(*where),
                     .lease_s = *lease_s,
                     .renewed = *count};
}

}  // namespace verbena::backend
