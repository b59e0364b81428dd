// SPDX-License-Identifier: Apache-2.0
#include "backend/rados_format.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "base/endian.h"
#include "store/crc_parts.h"
#include "store/record.h"

namespace verbena::backend {
namespace {

constexpr std::string_view kHeadMagic = "VBHD";
constexpr std::string_view kStripeMagic("VERBENA STRIPE\n\0", 16);
constexpr std::string_view kStripePrefix = "stripe.";
constexpr uint32_t kRadosFormat = 1;
constexpr size_t kHeadNameAt = 50;
constexpr size_t kTableAt = 64;
constexpr size_t kTableCheckAt = kStripeTableBytes - 4;
constexpr size_t kDigestDigits = 32;
constexpr size_t kNumberDigits = 16;

[[nodiscard]] std::span<const uint8_t> bytes_of(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

template <typename Number>
void append(std::string& text, Number number) {
  std::array<uint8_t, sizeof(Number)> bytes{};
  store_be(bytes.data(), number);
  text.append(bytes.begin(), bytes.end());
}

[[nodiscard]] std::optional<uint64_t> hex_number(std::string_view text) {
  uint64_t value = 0;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), value, 16);
  if (parsed.ec != std::errc{} || parsed.ptr != text.data() + text.size()) return std::nullopt;
  return value;
}

}  // namespace

std::string encode(const RadosHead& head) {
  std::string text(kHeadMagic);
  append(text, kRadosFormat);
  append(text, head.state.version);
  append(text, head.state.size);
  append(text, head.state.modified_ns);
  append(text, head.key.id.high);
  append(text, head.key.id.low);
  append(text, static_cast<uint16_t>(head.key.name.size()));
  text += head.key.name;
  append(text, static_cast<uint32_t>(head.stripes.size()));
  for (const uint64_t version : head.stripes) append(text, version);
  append(text, store::crc_of(bytes_of(text)));
  return text;
}

std::optional<RadosHead> decode_rados_head(std::string_view value) {
  const auto* const p = reinterpret_cast<const uint8_t*>(value.data());
  if (value.size() < kHeadNameAt + 8 || !value.starts_with(kHeadMagic)) return std::nullopt;
  const size_t check_at = value.size() - 4;
  if (load_be32(p + check_at) != store::crc_of(bytes_of(value.substr(0, check_at))) ||
      load_be32(p + 4) != kRadosFormat) {
    return std::nullopt;
  }
  const size_t name_bytes = load_be16(p + 48);
  const size_t count_at = kHeadNameAt + name_bytes;
  if (count_at + 4 > check_at) return std::nullopt;
  const size_t count = load_be32(p + count_at);
  RadosHead head{.key = {.name = std::string(value.substr(kHeadNameAt, name_bytes)),
                         .id = {load_be64(p + 32), load_be64(p + 40)}},
                 .state = {.version = load_be64(p + 8),
                           .size = load_be64(p + 16),
                           .modified_ns = load_be64(p + 24)},
                 .stripes = {}};
  if (count > kMaxStripes || count != stripes_of(head.state.size) ||
      count_at + 4 + count * 8 != check_at || head.state.version == 0 ||
      !store::good_name(head.key.name)) {
    return std::nullopt;
  }
  for (size_t i = 0; i < count; ++i) head.stripes.push_back(load_be64(p + count_at + 4 + i * 8));
  return head;
}

std::string text_of(const StripeName& name) {
  return fmt::format("{}{}.{:016x}.{:016x}", kStripePrefix, name.digest, name.version, name.number);
}

std::optional<StripeName> parse_stripe_name(std::string_view text) {
  constexpr size_t kLength =
      kStripePrefix.size() + kDigestDigits + 1 + kNumberDigits + 1 + kNumberDigits;
  if (text.size() != kLength || !text.starts_with(kStripePrefix)) return std::nullopt;
  const std::string_view rest = text.substr(kStripePrefix.size());
  const auto version = hex_number(rest.substr(kDigestDigits + 1, kNumberDigits));
  const auto number = hex_number(rest.substr(kDigestDigits + 1 + kNumberDigits + 1));
  if (!version || !number) return std::nullopt;
  StripeName name{std::string(rest.substr(0, kDigestDigits)), *version, *number};
  if (text_of(name) != text) return std::nullopt;
  return name;
}

std::string index_name(uint32_t index) { return fmt::format("index.{:02x}", index); }

std::string index_of(std::string_view digest) {
  const auto number = hex_number(digest.substr(0, 4));
  return index_name(static_cast<uint32_t>(number.value_or(0) % kRadosIndexes));
}

void encode(const StripeTable& table, const StripeName& name,
            std::span<uint8_t, kStripeTableBytes> bytes) {
  uint8_t* const p = bytes.data();
  std::memset(p, 0, kTableAt);
  std::ranges::copy(kStripeMagic, p);
  store_be32(p + 16, kRadosFormat);
  store_be32(p + 20, table.parts);
  store_be64(p + 24, name.version);
  store_be64(p + 32, name.number);
  for (size_t i = 0; i < 2; ++i) {
    store_be64(p + 40 + i * 8,
               hex_number(std::string_view(name.digest).substr(i * 16, 16)).value_or(0));
  }
  const uint32_t zeros = store::crc_of_zeros(kPartBytes);
  for (size_t i = 0; i < kStripeParts; ++i) {
    store_be32(p + kTableAt + i * 4, i < table.parts ? table.crcs[i] ^ zeros : 0);
  }
  store_be32(p + kTableCheckAt, store::crc_of(bytes.first(kTableCheckAt)));
}

std::optional<StripeTable> decode_stripe_table(std::span<const uint8_t, kStripeTableBytes> bytes,
                                               const StripeName& name) {
  const uint8_t* const p = bytes.data();
  if (load_be32(p + kTableCheckAt) != store::crc_of(bytes.first(kTableCheckAt))) {
    return std::nullopt;
  }
  StripeTable table{.parts = load_be32(p + 20)};
  if (table.parts > kStripeParts) return std::nullopt;
  const uint32_t zeros = store::crc_of_zeros(kPartBytes);
  for (size_t i = 0; i < kStripeParts; ++i) {
    table.crcs[i] = load_be32(p + kTableAt + i * 4) ^ zeros;
  }
  std::array<uint8_t, kStripeTableBytes> again{};
  encode(table, name, again);
  if (!std::ranges::equal(again, bytes)) return std::nullopt;
  return table;
}

}  // namespace verbena::backend
