// SPDX-License-Identifier: Apache-2.0
// What is in a pool: RADOS objects "index.NN", "stripe.DIGEST.VERSION.NUMBER" and "lease".
// docs/backend.md specifies it. All numbers are big-endian.
//
//   head, a value in the omap of an index, under the digest of its key:
//     "VBHD" | format u32 | version u64 | size u64 | modified_ns u64 | id 2 x u64 | name length u16
//     | name | stripes u32 | for each the version that it was written in, u64, 0: a hole | CRC u32
//
//   stripe, 1024 parts at most:
//     0                     16          20         24          32         40         56
//     | "VERBENA STRIPE\n\0" | format u32 | parts u32 | version u64 | number u64 | digest | 0
//     64: CRCs of 1024 parts, u32 each, XOR that of a part of zeros
//     4160: CRC u32 of the bytes before
//     8192: the parts, 4048 bytes each; parts after those that there are, are zeros
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/tier.h"

namespace verbena::backend {

inline constexpr uint64_t kStripeParts = 1024;
inline constexpr uint64_t kStripeBytes = kStripeParts * kPartBytes;
inline constexpr size_t kStripeTableBytes = 4164;
inline constexpr size_t kStripeDataAt = 8192;
inline constexpr uint32_t kRadosIndexes = 64;
// 64 GiB. The list of stripes is a value of an omap, which must not be large.
inline constexpr uint64_t kMaxStripes = 16'384;

struct RadosHead {
  Key key;
  State state;
  std::vector<uint64_t> stripes;
  bool operator==(const RadosHead&) const = default;
};
[[nodiscard]] std::string encode(const RadosHead& head);
// None: it is damaged.
[[nodiscard]] std::optional<RadosHead> decode_rados_head(std::string_view value);
[[nodiscard]] constexpr uint64_t stripes_of(uint64_t size) {
  return size / kStripeBytes + (size % kStripeBytes != 0 ? 1 : 0);
}

struct StripeName {
  std::string digest;
  uint64_t version = 0;
  uint64_t number = 0;
  bool operator==(const StripeName&) const = default;
};
[[nodiscard]] std::string text_of(const StripeName& name);
[[nodiscard]] std::optional<StripeName> parse_stripe_name(std::string_view text);
[[nodiscard]] std::string index_name(uint32_t index);
[[nodiscard]] std::string index_of(std::string_view digest);

// The first 4164 bytes of a stripe.
struct StripeTable {
  uint32_t parts = 0;
  std::array<uint32_t, kStripeParts> crcs{};  // those after `parts` are that of zeros
};
void encode(const StripeTable& table, const StripeName& name,
            std::span<uint8_t, kStripeTableBytes> bytes);
// None: it is damaged, or of another stripe.
[[nodiscard]] std::optional<StripeTable> decode_stripe_table(
    std::span<const uint8_t, kStripeTableBytes> bytes, const StripeName& name);

}  // namespace verbena::backend
