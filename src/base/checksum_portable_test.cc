// SPDX-License-Identifier: Apache-2.0
#include "base/checksum_portable.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "base/bitwise_crc.h"
#include "base/block_sums.h"
#include "base/random.h"

namespace verbena {
namespace {

// Processors that need the tables are rare: no other test reaches them.
TEST(CrcTables, AgreeWithTheDefinition) {
  SeededRandom random(7);
  std::vector<uint8_t> bytes(300);
  std::ranges::generate(bytes, [&] { return static_cast<uint8_t>(random.next()); });
  for (size_t length = 0; length <= bytes.size(); ++length) {
    const std::span<const uint8_t> message(bytes.data(), length);
    const auto state = static_cast<uint32_t>(random.next());
    EXPECT_EQ(CrcTables<kCrc32Polynomial>::lsb_first(state, message),
              bitwise_crc_lsb(kCrc32Polynomial, state, message));
    EXPECT_EQ(CrcTables<kCrc32cPolynomial>::lsb_first(state, message),
              bitwise_crc_lsb(kCrc32cPolynomial, state, message));
    EXPECT_EQ(CrcTables<kCrc64Polynomial>::lsb_first(state, message),
              bitwise_crc_lsb(kCrc64Polynomial, uint64_t{state}, message));
    const auto reversed = CrcTables<kCrc32Polynomial>::msb_first(reverse_bits(state), message);
    EXPECT_EQ(reverse_bits(static_cast<uint32_t>(reversed)),
              bitwise_crc_msb(uint32_t{0x04c11db7}, state, message));
  }
}

}  // namespace
}  // namespace verbena
