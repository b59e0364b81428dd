// SPDX-License-Identifier: Apache-2.0
#include "memory/move.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"

namespace verbena::memory {
namespace {

constexpr size_t kArena = 4096 + 256;

class MoveTest : public ::testing::Test {
 protected:
  // Copies n bytes to offset `at` and compares the whole arena.
  void expect_exact(size_t at, size_t n, bool last) {
    std::vector<uint8_t> bytes(n);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random_.next());
    store(arena_ + at, bytes, last);
    std::copy(bytes.begin(), bytes.end(), model_ + at);
    ASSERT_EQ(std::memcmp(arena_, model_, kArena), 0) << n << " bytes at " << at;
    std::vector<uint8_t> back(n);
    load(arena_ + at, back);
    ASSERT_EQ(back, bytes);
  }
  SeededRandom random_{5};
  alignas(64) uint8_t arena_[kArena]{};
  uint8_t model_[kArena]{};
};

TEST_F(MoveTest, EveryLengthWritesItsBytesAndNoOthers) {
  for (size_t n = 0; n <= 4097; ++n) expect_exact(1 + random_.below(128), n, n % 2 == 0);
}

TEST_F(MoveTest, EveryAlignmentOfShortOnes) {
  for (size_t n = 0; n <= 72; ++n) {
    for (size_t at = 1; at <= 17; ++at) {
      expect_exact(at, n, true);
      expect_exact(at, n, false);
    }
  }
}

TEST_F(MoveTest, TheFinalUnitIsTheLargestAlignedWordThatFits) {
  EXPECT_EQ(final_unit(arena_, 8), 8u);
  EXPECT_EQ(final_unit(arena_ + 1, 7), 4u);  // 8 would begin before it
  EXPECT_EQ(final_unit(arena_ + 5, 3), 2u);
  EXPECT_EQ(final_unit(arena_ + 7, 1), 1u);
  EXPECT_EQ(final_unit(arena_, 4), 4u);
  EXPECT_EQ(final_unit(arena_, 6), 2u);
  EXPECT_EQ(final_unit(arena_, 4097), 1u);
  EXPECT_EQ(final_unit(arena_ + 3, 4093), 8u);
}

}  // namespace
}  // namespace verbena::memory
