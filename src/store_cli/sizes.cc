// SPDX-License-Identifier: Apache-2.0
#include "store_cli/sizes.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include <fmt/format.h>

namespace verbena::store_cli {
namespace {

constexpr std::string_view kLetters = "KMGTPE";

// How many bytes the unit has; 0: there is no such unit.
[[nodiscard]] uint64_t unit_bytes(std::string_view unit) {
  if (unit.empty() || unit == "B" || unit == "b") return 1;
  const auto letter = static_cast<char>(std::toupper(static_cast<unsigned char>(unit.front())));
  const size_t power = kLetters.find(letter);
  if (power == std::string_view::npos) return 0;
  const std::string_view rest = unit.substr(1);
  const bool binary = rest.empty() || rest == "i" || rest == "iB" || rest == "ib";
  if (!binary && rest != "B" && rest != "b") return 0;
  uint64_t bytes = 1;
  for (size_t i = 0; i <= power; ++i) bytes *= binary ? 1024 : 1000;
  return bytes;
}

}  // namespace

Result<uint64_t, std::string> parse_size(std::string_view text) {
  const auto wrong = [&](const char* why) {
    return fail(fmt::format("invalid size '{}': {}", text, why));
  };
  const char* const end = text.data() + text.size();
  uint64_t whole = 0;
  const auto [after, error] = std::from_chars(text.data(), text.data() + text.size(), whole);
  if (error == std::errc::result_out_of_range) return wrong("too large");
  if (error != std::errc{})
    return wrong("expected a number with an optional unit, such as 4096, 10G or 512MiB");

  const char* at = after;
  // The fraction as numerator / denominator, so that nothing is rounded twice.
  uint64_t numerator = 0;
  uint64_t denominator = 1;
  if (at != end && *at == '.') {
    const char* const first = ++at;
    for (; at != end && *at >= '0' && *at <= '9'; ++at) {
      if (at - first == 9) return wrong("more than 9 digits after the point");
      numerator = numerator * 10 + static_cast<uint64_t>(*at - '0');
      denominator *= 10;
    }
    if (at == first) return wrong("no digits after the point");
  }
  if (end - at > 1 && *at == ' ') ++at;
  const uint64_t unit = unit_bytes({at, static_cast<size_t>(end - at)});
  if (unit == 0) return wrong("unknown unit; units are B, K, M, G, T, P, E, KiB ... and KB ...");
  if (unit == 1 && denominator != 1) return wrong("not a whole number of bytes");
  const auto bytes = static_cast<unsigned __int128>(whole) * unit +
                     static_cast<unsigned __int128>(numerator) * unit / denominator;
  if (bytes > UINT64_MAX) return wrong("too large");
  return static_cast<uint64_t>(bytes);
}

Result<ByteRange, std::string> parse_range(std::string_view text) {
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) {
    return fail(fmt::format(
        "invalid range '{}': expected OFFSET:LENGTH, or OFFSET: for up to the end", text));
  }
  const auto offset = parse_size(text.substr(0, colon));
  if (!offset) return fail(offset.error());
  const std::string_view behind = text.substr(colon + 1);
  if (behind.empty()) return ByteRange{*offset, 0};
  const auto length = parse_size(behind);
  if (!length) return fail(length.error());
  if (*length == 0) return fail(fmt::format("invalid range '{}': the length is 0", text));
  if (*length > UINT64_MAX - *offset)
    return fail(fmt::format("invalid range '{}': it ends past 2^64", text));
  return ByteRange{*offset, *length};
}

std::string human_size(uint64_t bytes) {
  if (bytes < 10'000) return fmt::format("{} B", bytes);
  auto value = static_cast<double>(bytes);
  size_t unit = 0;
  for (value /= 1024; value >= 1000 && unit + 1 < kLetters.size(); ++unit) value /= 1024;
  return fmt::format("{:.{}f} {}iB", value, value < 100 ? 1 : 0, kLetters[unit]);
}

}  // namespace verbena::store_cli
