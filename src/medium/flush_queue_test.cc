// SPDX-License-Identifier: Apache-2.0
#include "medium/flush_queue.h"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace verbena::medium {
namespace {

using Ranges = std::vector<FlushQueue::Range>;

TEST(FlushQueue, TakenInOrderAndMerged) {
  FlushQueue queue;
  queue.add(100, 200);
  queue.add(10, 20);
  queue.add(20, 30);
  queue.add(150, 300);
  queue.add(160, 170);
  queue.add(400, 500);
  EXPECT_EQ(queue.take(), (Ranges{{10, 30}, {100, 300}, {400, 500}}));
  EXPECT_TRUE(queue.take().empty());
}

TEST(FlushQueue, DroppedRangesAreCut) {
  FlushQueue queue;
  queue.add(0, 100);
  queue.add(120, 130);
  queue.add(140, 300);
  EXPECT_TRUE(queue.drop(50, 200));
  EXPECT_EQ(queue.take(), (Ranges{{0, 50}, {200, 300}}));
  queue.add(0, 300);
  queue.add(400, 410);
  queue.add(0, 100);
  EXPECT_TRUE(queue.drop(50, 200));
  EXPECT_TRUE(queue.drop(400, 410));
  EXPECT_TRUE(queue.drop(300, 400));
  EXPECT_EQ(queue.take(), (Ranges{{0, 50}, {200, 300}}));
}

TEST(FlushQueue, TheSameManyTimesTakesNoRoom) {
  FlushQueue queue;
  for (int round = 0; round < 300'000; ++round) {
    const auto at = static_cast<uint64_t>(round % 2) * 1000;
    queue.add(at, at + 10);
  }
  EXPECT_LT(queue.size(), 70'000U);
  EXPECT_EQ(queue.take(), (Ranges{{0, 10}, {1000, 1010}}));
}

}  // namespace
}  // namespace verbena::medium
