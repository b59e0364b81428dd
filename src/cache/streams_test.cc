// SPDX-License-Identifier: Apache-2.0
#include "cache/streams.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "base/random.h"

namespace verbena::cache {
namespace {

using Range = Streams::Range;
constexpr ObjectId kObject{1, 7};
constexpr ObjectId kOther{1, 8};
constexpr uint64_t kWindow = 16;

Range segments(uint64_t first, uint64_t count = 1, ObjectId object = kObject) {
  return {object, first, count};
}

TEST(StreamsTest, OneMissIsNoStream) {
  Streams streams(kWindow);
  EXPECT_FALSE(streams.missed(segments(3)));
  EXPECT_FALSE(streams.used(segments(3)));
  EXPECT_FALSE(streams.used(segments(4)));
}

TEST(StreamsTest, TheSecondMissInOrderBeginsOne) {
  Streams streams(kWindow);
  EXPECT_FALSE(streams.missed(segments(3)));
  EXPECT_EQ(streams.missed(segments(4, 3)), segments(7, 6));
}

TEST(StreamsTest, SoDoesAMissAtTheBeginning) {
  Streams streams(kWindow);
  EXPECT_EQ(streams.missed(segments(0)), segments(1, 2));
}

TEST(StreamsTest, TheFirstUseOfAWindowFetchesTheNextOnceAndTwiceAsMuch) {
  Streams streams(kWindow);
  EXPECT_EQ(streams.missed(segments(0)), segments(1, 2));
  EXPECT_FALSE(streams.used(segments(0)));
  uint64_t window = 2;
  for (uint64_t at = 1; at < 200; at += window, window = std::min(2 * window, kWindow)) {
    EXPECT_EQ(streams.used(segments(at)), segments(at + window, std::min(2 * window, kWindow)));
    for (uint64_t i = at; i < at + window; ++i) EXPECT_FALSE(streams.used(segments(i)));
  }
}

TEST(StreamsTest, LargeUsesFetchWhenTheyReachIntoAWindow) {
  Streams streams(kWindow);
  EXPECT_EQ(streams.missed(segments(0, 8)), segments(8, kWindow));
  EXPECT_EQ(streams.used(segments(5, 4)), segments(8 + kWindow, kWindow));
}

TEST(StreamsTest, AWindowThatWasNotFetchedBeginsAnew) {
  Streams streams(kWindow);
  EXPECT_EQ(streams.missed(segments(0, 8)), segments(8, kWindow));
  EXPECT_EQ(streams.missed(segments(8)), segments(9, kWindow));
  EXPECT_EQ(streams.used(segments(9)), segments(9 + kWindow, kWindow));
}

// Otherwise random reads of an object would fetch more and more of it.
TEST(StreamsTest, OthersWithinAWindowAreNotInOrder) {
  Streams streams(kWindow);
  EXPECT_EQ(streams.missed(segments(0, 8)), segments(8, kWindow));
  EXPECT_FALSE(streams.missed(segments(11)));
  EXPECT_FALSE(streams.used(segments(13)));
  EXPECT_EQ(streams.used(segments(8)), segments(8 + kWindow, kWindow));
}

TEST(StreamsTest, RandomReadsOfOneObjectFetchLittle) {
  Streams streams(kWindow);
  SeededRandom random(1);
  uint64_t ahead = 0;
  for (int i = 0; i < 10'000; ++i) {
    const auto fetched = i % 2 == 0 ? streams.missed(segments(random.below(1000)))
                                    : streams.used(segments(random.below(1000)));
    if (fetched) ahead += fetched->count;
  }
  EXPECT_LT(ahead, 6'000u);  // a sixth of what is missed is followed by chance
}

TEST(StreamsTest, RandomMissesAndOtherObjectsFetchNothing) {
  Streams streams(kWindow);
  for (uint64_t i = 1; i < 1000; ++i) EXPECT_FALSE(streams.missed(segments(i * 37 % 1000 * 3)));
  EXPECT_FALSE(streams.missed(segments(10'000)));
  EXPECT_FALSE(streams.missed(segments(10'001, 1, kOther)));
  EXPECT_TRUE(streams.missed(segments(10'001)));
  EXPECT_FALSE(streams.used(segments(10'002, 1, kOther)));
}

TEST(StreamsTest, ManyBeginAndTheOldestIsForgotten) {
  Streams streams(kWindow);
  for (uint64_t i = 1; i <= 64; ++i) EXPECT_FALSE(streams.missed(segments(1000 * i)));
  EXPECT_EQ(streams.missed(segments(1001)), segments(1002, 2));
  EXPECT_FALSE(streams.missed(segments(1'000'000)));  // in the place of the first
  EXPECT_FALSE(streams.used(segments(1002)));
  EXPECT_FALSE(streams.missed(segments(1004)));
}

TEST(StreamsTest, AWindowOfNothing) {
  Streams streams(0);
  EXPECT_FALSE(streams.missed(segments(0)));
  EXPECT_FALSE(streams.missed(segments(1)));
  EXPECT_FALSE(streams.used(segments(1)));
}

}  // namespace
}  // namespace verbena::cache
