// SPDX-License-Identifier: Apache-2.0
#include "emulated_link/schedule.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"

namespace verbena::emulated {
namespace {

TEST(Schedule, EmptyHasNothingDue) { EXPECT_EQ(Schedule().next_due(), kNever); }

TEST(Schedule, PacketsOfOneMomentLeaveInTheOrderTheyCame) {
  Schedule schedule;
  for (uint32_t i = 0; i < 10; ++i) schedule.add({.due = 5, .slot = i});
  for (uint32_t i = 0; i < 10; ++i) EXPECT_EQ(schedule.take().slot, i);
}

TEST(Schedule, AnyOrderLeavesSorted) {
  Schedule schedule;
  SeededRandom random(1);
  std::vector<Time> dues;
  for (int i = 0; i < 10'000; ++i) {
    dues.push_back(static_cast<Time>(random.below(1'000'000)));
    schedule.add({.due = dues.back()});
  }
  std::sort(dues.begin(), dues.end());
  for (const Time due : dues) {
    ASSERT_EQ(schedule.next_due(), due);
    ASSERT_EQ(schedule.take().due, due);
  }
  EXPECT_EQ(schedule.next_due(), kNever);
}

}  // namespace
}  // namespace verbena::emulated
