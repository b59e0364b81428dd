// SPDX-License-Identifier: Apache-2.0
// A value is a polynomial over GF(2), the highest coefficient first. Appending n bytes to a message
// multiplies its remainder by x^(8n); for finished values, whose initial value and final XOR are
// equal, the CRC of A||B is that of A times x^(8 |B|), plus that of B.
#include "store/crc_parts.h"

#include <array>
#include <bit>

#include "base/block_sums.h"
#include "base/checksum.h"
#include "base/checksum_arm64.h"

namespace verbena::store {
namespace {

using Algebra = Crc32Algebra;            // of reflected values
constexpr uint64_t kOrder = 0xffffffff;  // x to this is 1: the polynomial is primitive
constexpr uint64_t kTableBytes = 4096;

// Products of reflected values come out times a power of x, of which factors are short.
constexpr uint64_t kPlainSurplus = 1;
constexpr uint64_t kSurplus = kArm64 ? kCrc32TimesSurplus : kPlainSurplus;
struct Factor {
  uint32_t value;
};
[[nodiscard]] constexpr Factor x_to_bytes(uint64_t bytes) {
  return {Algebra::power(8 * (bytes % kOrder) + kOrder - kSurplus)};
}

// The carry-less product, by ordinary multiplication of bits that are four apart: at most eight
// products meet at one place, and their sum does not reach the next.
[[nodiscard]] constexpr uint64_t carryless(uint32_t a, uint32_t b) {
  constexpr uint64_t kEveryFourth = 0x1111111111111111;
  uint64_t product = 0;
#pragma GCC unroll 4
  for (unsigned place = 0; place < 4; ++place) {
    uint64_t sum = 0;
#pragma GCC unroll 4
    for (unsigned i = 0; i < 4; ++i) {
      sum ^= (a & kEveryFourth << i) * (b & kEveryFourth << (place - i) % 4);
    }
    product |= sum & kEveryFourth << place;
  }
  return product;
}

// kReduce[i][b]: byte i of a reflected value b times x^32. Bit by bit: compilers count the steps.
constexpr auto kReduce = [] {
  std::array<std::array<uint32_t, 256>, 4> tables{};
  for (unsigned i = 0; i < 4; ++i) {
    for (unsigned bit = 0; bit < 8; ++bit) {
      uint32_t value = 1u << (8 * i + bit);
      for (int step = 0; step < 32; ++step) value = Algebra::times_x(value);
      for (unsigned below = 0; below < 1u << bit; ++below) {
        tables[i][below | 1u << bit] = tables[i][below] ^ value;
      }
    }
  }
  return tables;
}();

// Where there are no instructions for it. The lower half of the product is what lies beyond x^31.
[[nodiscard]] constexpr uint32_t times_plain(uint32_t a, uint32_t b) {
  const uint64_t product = carryless(a, b);
  auto result = static_cast<uint32_t>(product >> 32);
#pragma GCC unroll 4
  for (unsigned i = 0; i < 4; ++i) result ^= kReduce[i][product >> 8 * i & 0xff];
  return result;
}

// Machines with the instructions do not come by here: by the definition, for numbers of all kinds.
static_assert([] {
  uint32_t a = 1;
  uint32_t b = 0xffffffff;
  for (int i = 0; i < 100; ++i) {
    if (times_plain(a, b) != Algebra::times_x(Algebra::multiply(a, b))) return false;
    a = a * 1664525 + 1013904223;
    b ^= a >> i % 32;
  }
  return true;
}());

[[nodiscard]] uint32_t times(uint32_t value, Factor by) {
  if constexpr (kArm64) {
    if (has_crc32_arm64()) return crc32_msb_times_arm64(value, by.value);
    constexpr uint32_t kMissing = Algebra::power(kSurplus - 2 * kPlainSurplus);
    by.value = times_plain(by.value, kMissing);
  }
  return reverse_bits(times_plain(reverse_bits(value), by.value));
}

// x^(8 n).
constexpr auto kTable = [] {
  std::array<Factor, kTableBytes + 1> table{};
  table[0] = x_to_bytes(0);
  for (size_t n = 1; n < table.size(); ++n) {
    table[n] = table[n - 1];
    for (int bit = 0; bit < 8; ++bit) table[n].value = Algebra::times_x(table[n].value);
  }
  return table;
}();

// x^(8 * 4096 * 2^i): what lies beyond the table, bit by bit.
constexpr auto kBeyond = [] {
  std::array<Factor, 52> beyond{};
  for (size_t i = 0; i < beyond.size(); ++i) beyond[i] = x_to_bytes(kTableBytes << i);
  return beyond;
}();

// value * x^(8 bytes).
[[nodiscard]] uint32_t past(uint32_t value, uint64_t bytes) {
  if (bytes <= kTableBytes) return times(value, kTable[bytes]);
  value = times(value, kTable[bytes % kTableBytes]);
  for (uint64_t left = bytes / kTableBytes; left != 0; left &= left - 1) {
    value = times(value, kBeyond[static_cast<size_t>(std::countr_zero(left))]);
  }
  return value;
}

// value / x^(8 bytes): for short ones past the rest of the table, and back all of it.
[[nodiscard]] uint32_t before(uint32_t value, uint64_t bytes) {
  if (bytes > kTableBytes) return past(value, kOrder - bytes % kOrder);
  constexpr Factor kBack = x_to_bytes(kOrder - kTableBytes);
  return times(times(value, kTable[kTableBytes - bytes]), kBack);
}

}  // namespace

uint32_t crc_of(std::span<const uint8_t> bytes) { return ~crc32_msb_update(kCrc32Start, bytes); }

uint32_t crc_copy(uint8_t* to, std::span<const uint8_t> bytes) {
  return ~crc32_msb_copy(kCrc32Start, to, bytes);
}

uint32_t crc_join(uint32_t crc_a, uint32_t crc_b, uint64_t length_b) {
  return past(crc_a, length_b) ^ crc_b;
}

uint32_t crc_without_tail(uint32_t crc_ab, uint32_t crc_b, uint64_t length_b) {
  return before(crc_ab ^ crc_b, length_b);
}

uint32_t crc_without_head(uint32_t crc_ab, uint32_t crc_a, uint64_t length_b) {
  return past(crc_a, length_b) ^ crc_ab;
}

uint32_t crc_patch(uint32_t crc_abc, uint32_t crc_b, uint32_t crc_b_new, uint64_t length_c) {
  return past(crc_b ^ crc_b_new, length_c) ^ crc_abc;
}

uint32_t crc_zeros_after(uint32_t crc_a, uint64_t zeros) { return ~past(~crc_a, zeros); }

uint32_t crc_of_zeros(uint64_t zeros) { return crc_zeros_after(0, zeros); }

}  // namespace verbena::store
