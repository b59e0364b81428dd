// SPDX-License-Identifier: Apache-2.0
// CRCs from their parts, against the bitwise definition over the whole.
#include "store/crc_parts.h"

#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "base/bitwise_crc.h"
#include "base/random.h"

namespace verbena::store {
namespace {

using Bytes = std::vector<uint8_t>;

uint32_t by_definition(std::span<const uint8_t> bytes) {
  return ~bitwise_crc_msb<uint32_t>(0x04c11db7, 0xffffffff, bytes);
}

Bytes random_bytes(RandomSource& random, size_t length) {
  Bytes bytes(length);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.next());
  return bytes;
}

Bytes operator+(Bytes a, const Bytes& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Short ones, those at the table's end and behind it, and any.
size_t random_length(RandomSource& random) {
  switch (random.below(4)) {
    case 0:  return random.below(8);
    case 1:  return 4040 + random.below(64);
    case 2:  return 4097 + random.below(8000);
    default: return random.below(4097);
  }
}

TEST(CrcParts, KnownAnswers) {
  constexpr std::string_view kDigits = "123456789";
  const Bytes digits(kDigits.begin(), kDigits.end());
  EXPECT_EQ(crc_of(digits), 0xfc891918);
  EXPECT_EQ(crc_of({}), 0u);
  EXPECT_EQ(crc_of(Bytes(1)), 0xb1f7404b);
  EXPECT_EQ(crc_of_zeros(1), 0xb1f7404b);
  EXPECT_EQ(crc_of_zeros(0), 0u);
}

TEST(CrcParts, CopyingGivesTheSame) {
  SeededRandom random(1);
  for (int round = 0; round < 200; ++round) {
    const Bytes from = random_bytes(random, random_length(random));
    Bytes to(from.size());
    EXPECT_EQ(crc_copy(to.data(), from), by_definition(from));
    EXPECT_EQ(crc_of(from), by_definition(from));
    EXPECT_EQ(to, from);
  }
}

TEST(CrcParts, AgreeWithTheWhole) {
  for (uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    SeededRandom random(seed);
    const Bytes a = random_bytes(random, random_length(random));
    const Bytes b = random_bytes(random, random_length(random));
    const Bytes c = random_bytes(random, random_length(random));
    const Bytes b_new = random_bytes(random, b.size());
    const uint32_t crc_a = by_definition(a);
    const uint32_t crc_b = by_definition(b);
    const uint32_t crc_ab = by_definition(a + b);
    EXPECT_EQ(crc_join(crc_a, crc_b, b.size()), crc_ab);
    EXPECT_EQ(crc_without_tail(crc_ab, crc_b, b.size()), crc_a);
    EXPECT_EQ(crc_without_head(crc_ab, crc_a, b.size()), crc_b);
    EXPECT_EQ(crc_patch(by_definition(a + b + c), crc_b, by_definition(b_new), c.size()),
              by_definition(a + b_new + c));
    EXPECT_EQ(crc_zeros_after(crc_a, c.size()), by_definition(a + Bytes(c.size())));
    EXPECT_EQ(crc_of_zeros(c.size()), by_definition(Bytes(c.size())));
  }
}

// Each entry of the table, forwards and back: a byte at a time by the definition.
TEST(CrcParts, EveryLengthOfTheTable) {
  const Bytes a = {'a', 'b', 'c'};
  const uint8_t zero[1] = {};
  uint32_t state = ~by_definition(a);
  for (uint64_t zeros = 0; zeros <= 4200; ++zeros) {
    ASSERT_EQ(crc_zeros_after(by_definition(a), zeros), ~state) << zeros;
    ASSERT_EQ(crc_without_tail(~state, crc_of_zeros(zeros), zeros), by_definition(a)) << zeros;
    state = bitwise_crc_msb<uint32_t>(0x04c11db7, state, zero);
  }
}

// Lengths that no memory holds: joined in two ways.
TEST(CrcParts, LengthsBeyondMemory) {
  SeededRandom random(7);
  for (int round = 0; round < 200; ++round) {
    const uint64_t one = random.next() >> random.below(63);
    const uint64_t other = random.below(~one) >> random.below(63);
    const auto crc = static_cast<uint32_t>(random.next());
    EXPECT_EQ(crc_zeros_after(crc_zeros_after(crc, one), other), crc_zeros_after(crc, one + other));
    const uint32_t joined = crc_join(crc, 0x12345678, one);
    EXPECT_EQ(crc_without_tail(joined, 0x12345678, one), crc);
    EXPECT_EQ(crc_without_head(joined, crc, one), 0x12345678u);
  }
}

}  // namespace
}  // namespace verbena::store
