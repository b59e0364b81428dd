// SPDX-License-Identifier: Apache-2.0
#include "protocol/siphash.h"

#include <vector>

#include <gtest/gtest.h>

namespace verbena::protocol {
namespace {

constexpr SipKey kReferenceKey{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};

std::vector<uint8_t> counting(size_t length) {
  std::vector<uint8_t> bytes(length);
  for (size_t i = 0; i < length; ++i) bytes[i] = static_cast<uint8_t>(i);
  return bytes;
}

uint64_t hash_of(std::span<const uint8_t> bytes) {
  SipHash hash(kReferenceKey);
  hash.update(bytes);
  return hash.finish();
}

// The vectors of the reference implementation; that of 15 bytes is in the paper, appendix A.
TEST(SipHash, ReferenceVectors) {
  EXPECT_EQ(hash_of(counting(0)), 0x726fdb47dd0e0e31u);
  EXPECT_EQ(hash_of(counting(1)), 0x74f839c593dc67fdu);
  EXPECT_EQ(hash_of(counting(7)), 0xab0200f58b01d137u);
  EXPECT_EQ(hash_of(counting(8)), 0x93f5f5799a932462u);
  EXPECT_EQ(hash_of(counting(15)), 0xa129ca6149be45e5u);
  EXPECT_EQ(hash_of(counting(63)), 0x958a324ceb064572u);
}

TEST(SipHash, PiecesMakeTheWhole) {
  const auto bytes = counting(40);
  for (size_t first = 0; first <= bytes.size(); ++first) {
    for (size_t second = first; second <= bytes.size(); ++second) {
      SipHash hash(kReferenceKey);
      hash.update(std::span(bytes).first(first));
      hash.update(std::span(bytes).subspan(first, second - first));
      hash.update(std::span(bytes).subspan(second));
      EXPECT_EQ(hash.finish(), hash_of(bytes)) << first << " " << second;
    }
  }
}

}  // namespace
}  // namespace verbena::protocol
