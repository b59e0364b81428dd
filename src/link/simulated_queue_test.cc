// SPDX-License-Identifier: Apache-2.0
#include "link/simulated_queue.h"

#include <vector>

#include <gtest/gtest.h>

#include "link/framing.h"

namespace verbena::link {
namespace {

class SimulatedQueueTest : public ::testing::Test {
 protected:
  SeededRandom random_{1};
  // A byte takes a microsecond.
  QueueOptions options_{
      .bits_per_second = 8'000'000, .delay = 100 * kMicrosecond, .queue_bytes = 3'000};
};

TEST_F(SimulatedQueueTest, AFrameTakesItsTimeAndTheDelay) {
  SimulatedQueue queue(options_, random_);
  EXPECT_EQ(queue.pass(1'000, false, 50).arrival, 50 + 1'100 * kMicrosecond);
}

TEST_F(SimulatedQueueTest, FramesWaitForThoseBeforeThem) {
  SimulatedQueue queue(options_, random_);
  (void)queue.pass(1'000, false, 0);
  EXPECT_EQ(queue.length_bytes(400 * kMicrosecond), 600u);
  EXPECT_EQ(queue.pass(500, false, 400 * kMicrosecond).arrival, 1'600 * kMicrosecond);
  EXPECT_EQ(queue.length_bytes(5 * kMillisecond), 0u);
}

TEST_F(SimulatedQueueTest, WhatFindsNoRoomIsDropped) {
  SimulatedQueue queue(options_, random_);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(queue.pass(1'000, false, 0).dropped);
  EXPECT_TRUE(queue.pass(1'000, false, 0).dropped);
  EXPECT_FALSE(queue.pass(1'000, false, kMillisecond).dropped);
  EXPECT_EQ(queue.figures().dropped, 1u);
  EXPECT_EQ(queue.figures().longest_bytes, 3'000u);
}

TEST_F(SimulatedQueueTest, LongQueuesMarkWhatCanBeMarked) {
  options_.red_from_bytes = 1'000;
  options_.red_all_from_bytes = 2'000;
  SimulatedQueue queue(options_, random_);
  EXPECT_FALSE(queue.pass(900, true, 0).marked);
  EXPECT_FALSE(queue.pass(1'100, true, 0).marked);
  EXPECT_TRUE(queue.pass(500, true, 0).marked);
  EXPECT_EQ(queue.figures().marked, 1u);
  EXPECT_EQ(queue.figures().dropped, 0u);
}

TEST_F(SimulatedQueueTest, LongQueuesDropWhatCannotBeMarked) {
  options_.red_from_bytes = 1'000;
  options_.red_all_from_bytes = 2'000;
  SimulatedQueue queue(options_, random_);
  EXPECT_FALSE(queue.pass(900, false, 0).dropped);
  EXPECT_FALSE(queue.pass(1'100, false, 0).dropped);
  const auto passage = queue.pass(500, false, 0);
  EXPECT_TRUE(passage.dropped);
  EXPECT_FALSE(passage.marked);
  EXPECT_EQ(queue.length_bytes(0), 2'000u);
  EXPECT_EQ(queue.figures().dropped_early, 1u);
  EXPECT_FALSE(queue.pass(500, true, 0).dropped);
}

TEST_F(SimulatedQueueTest, ARouterWithoutEcnDropsWhatCouldBeMarked) {
  options_.red_from_bytes = 1'000;
  options_.red_all_from_bytes = 2'000;
  options_.marks = false;
  SimulatedQueue queue(options_, random_);
  EXPECT_FALSE(queue.pass(2'000, true, 0).dropped);
  EXPECT_TRUE(queue.pass(500, true, 0).dropped);
  EXPECT_EQ(queue.figures().marked, 0u);
  EXPECT_EQ(queue.figures().dropped_early, 1u);
}

TEST_F(SimulatedQueueTest, WhatFindsNoRoomIsNotDroppedEarly) {
  options_.red_from_bytes = 1'000;
  options_.red_all_from_bytes = 2'000;
  SimulatedQueue queue(options_, random_);
  (void)queue.pass(2'000, true, 0);
  EXPECT_TRUE(queue.pass(1'001, true, 0).dropped);
  EXPECT_EQ(queue.figures().dropped, 1u);
  EXPECT_EQ(queue.figures().dropped_early, 0u);
  EXPECT_EQ(queue.figures().marked, 0u);
}

TEST_F(SimulatedQueueTest, BetweenTheTwoLengthsSomeAreMarkedOrDropped) {
  options_.red_from_bytes = 1'000;
  options_.red_all_from_bytes = 3'000;
  SimulatedQueue queue(options_, random_);
  uint32_t marked = 0;
  uint32_t dropped = 0;
  for (int i = 0; i < 1'000; ++i) {
    const Time now = i * 10 * kMillisecond;
    (void)queue.pass(1'500, true, now);
    if (queue.pass(10, true, now).marked) ++marked;
    if (queue.pass(10, false, now).dropped) ++dropped;
  }
  // A quarter of the way from the one length to the other.
  EXPECT_NEAR(marked, 250, 70);
  EXPECT_NEAR(dropped, 250, 70);
  EXPECT_EQ(queue.figures().dropped_early, dropped);
}

TEST_F(SimulatedQueueTest, TheMeanIsOverTime) {
  SimulatedQueue queue(options_, random_);
  queue.reset_figures(0);
  (void)queue.pass(2'000, false, 0);
  (void)queue.pass(100, false, kMillisecond);  // finds 1000
  EXPECT_NEAR(queue.mean_bytes(2 * kMillisecond), 500, 1);
}

// A packet whose path says that it can be marked still has the right checksums when it is.
TEST(EcnOfFrames, AMarkLeavesTheFrameWhole) {
  for (const bool ipv4 : {true, false}) {
    transport::Path path{.source = wire::Gid::from_ipv4(10, 0, 0, 1),
                         .destination = wire::Gid::from_ipv4(10, 0, 0, 2),
                         .traffic_class = 0x62};
    if (!ipv4) {
      path.source = wire::Gid{{0xfd, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
      path.destination = wire::Gid{{0xfd, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2}};
    }
    std::array<uint8_t, wire::Bth::kBytes> bth;
    wire::Bth header;
    header.opcode = wire::opcode_byte(wire::Service::kRc, wire::Op::kSendOnly);
    header.write(bth.data());
    std::vector<uint8_t> frame = frame_of({.path = &path, .headers = bth}, 7);
    ASSERT_TRUE(can_be_marked(frame));
    mark_congestion(frame);
    const auto packet = open_frame(frame);
    ASSERT_TRUE(packet.has_value());
    EXPECT_EQ(packet->traffic_class, 0x63);
  }
}

TEST(EcnOfFrames, WhatDoesNotSayThatItCanBeMarkedCannot) {
  const transport::Path path{.source = wire::Gid::from_ipv4(10, 0, 0, 1),
                             .destination = wire::Gid::from_ipv4(10, 0, 0, 2),
                             .traffic_class = 0x60};
  std::array<uint8_t, wire::Bth::kBytes> bth{};
  EXPECT_FALSE(can_be_marked(frame_of({.path = &path, .headers = bth}, 7)));
  EXPECT_FALSE(can_be_marked(std::vector<uint8_t>(64)));
}

}  // namespace
}  // namespace verbena::link
