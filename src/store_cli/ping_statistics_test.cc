// SPDX-License-Identifier: Apache-2.0
#include "store_cli/ping_statistics.h"

#include <gtest/gtest.h>

namespace verbena::store_cli {
namespace {

TEST(PingStatistics, OfNoneAreZeros) {
  PingStatistics none;
  none.lost();
  EXPECT_EQ(none.sent(), 1U);
  EXPECT_EQ(none.received(), 0U);
  EXPECT_EQ(none.min_ns() + none.mean_ns() + none.max_ns() + none.deviation_ns(), 0);
}

TEST(PingStatistics, CountOnlyWhatWasAnswered) {
  PingStatistics some;
  for (const Duration ns : {2000, 4000, 4000, 4000, 5000, 5000, 7000, 9000}) some.answered(ns);
  some.lost();
  EXPECT_EQ(some.sent(), 9U);
  EXPECT_EQ(some.received(), 8U);
  EXPECT_EQ(some.min_ns(), 2000);
  EXPECT_EQ(some.mean_ns(), 5000);
  EXPECT_EQ(some.max_ns(), 9000);
  EXPECT_EQ(some.deviation_ns(), 2000);
}

TEST(PingStatistics, TimesAreShownInMilliseconds) {
  EXPECT_EQ(milliseconds(41'600), "0.042 ms");
  EXPECT_EQ(milliseconds(1'234'567'890), "1234.568 ms");
}

}  // namespace
}  // namespace verbena::store_cli
