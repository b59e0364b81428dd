// SPDX-License-Identifier: Apache-2.0
#include "wire/psn.h"

#include <gtest/gtest.h>

#include "base/random.h"

namespace verbena::wire {
namespace {

constexpr uint32_t kHalf = 1u << 23;

TEST(Psn, WrapsAtTwentyFourBits) {
  EXPECT_EQ(Psn(0xffffff).next(), Psn(0));
  EXPECT_EQ(Psn(0).previous(), Psn(0xffffff));
  EXPECT_EQ(Psn(0x1234567).value(), 0x234567u);
  EXPECT_EQ(Psn(0xfffff0) + 0x20, Psn(0x10));
  EXPECT_EQ(Psn(0x10) - 0x20, Psn(0xfffff0));
  EXPECT_EQ(Psn(5) + (1u << 24), Psn(5));
}

TEST(Psn, DistanceIsSignedAndModular) {
  EXPECT_EQ(distance(Psn(5), Psn(5)), 0);
  EXPECT_EQ(distance(Psn(0xffffff), Psn(0)), 1);
  EXPECT_EQ(distance(Psn(0), Psn(0xffffff)), -1);
  EXPECT_EQ(distance(Psn(0xffff00), Psn(0x100)), 0x200);
  EXPECT_EQ(distance(Psn(0), Psn(kHalf - 1)), static_cast<int32_t>(kHalf) - 1);
  // Exactly half way round is neither; it counts as before, whichever way it is asked.
  EXPECT_EQ(distance(Psn(0), Psn(kHalf)), -static_cast<int32_t>(kHalf));
  EXPECT_EQ(distance(Psn(kHalf), Psn(0)), -static_cast<int32_t>(kHalf));
}

TEST(Psn, BeforeAndAfterAcrossTheWrap) {
  EXPECT_TRUE(Psn(0xfffffe).is_before(Psn(1)));
  EXPECT_TRUE(Psn(1).is_after(Psn(0xfffffe)));
  EXPECT_FALSE(Psn(1).is_before(Psn(0xfffffe)));
  EXPECT_FALSE(Psn(7).is_before(Psn(7)));
  EXPECT_FALSE(Psn(7).is_after(Psn(7)));
}

TEST(Psn, DistanceUndoesAddition) {
  SeededRandom random(1);
  for (int round = 0; round < 20'000; ++round) {
    const Psn from(static_cast<uint32_t>(random.next()));
    const auto step = static_cast<uint32_t>(random.below(kHalf));
    ASSERT_EQ(distance(from, from + step), static_cast<int32_t>(step));
    ASSERT_EQ(distance(from, from - step), -static_cast<int32_t>(step));
    ASSERT_EQ((from + step) - step, from);
    ASSERT_EQ(from.is_before(from + step), step != 0);
    ASSERT_EQ(from.is_after(from - step), step != 0);
  }
}

}  // namespace
}  // namespace verbena::wire
