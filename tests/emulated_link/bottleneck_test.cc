// SPDX-License-Identifier: Apache-2.0
#include "emulated_link/bottleneck.h"

#include <cstdint>
#include <vector>

#include <gtest/gtest.h>

namespace verbena::emulated {
namespace {

constexpr uint32_t kBytes = 1'000;
constexpr Duration kOnLink = 8 * kMicrosecond;  // at 1 Gbit/s

[[nodiscard]] Impairments gigabit() {
  return {.rate_bps = 1'000'000'000, .delay = 5 * kMillisecond, .queue_bytes = 10 * kBytes};
}

TEST(Bottleneck, APacketTakesItsTimeOnTheLinkAndTheDelay) {
  Bottleneck link(gigabit(), 1);
  const Passage passage = link.enter(kSecond, kBytes, false);
  EXPECT_EQ(passage.fate, Fate::kLeaves);
  EXPECT_EQ(passage.due, kSecond + kOnLink + 5 * kMillisecond);
}

TEST(Bottleneck, PacketsAtOnceLeaveAtTheRate) {
  Bottleneck link(gigabit(), 1);
  for (int i = 1; i <= 10; ++i) {
    EXPECT_EQ(link.enter(0, kBytes, false).due, i * kOnLink + 5 * kMillisecond);
  }
}

TEST(Bottleneck, TheQueueIsBoundedAndEmptiesAtTheRate) {
  Bottleneck link(gigabit(), 1);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(link.enter(0, kBytes, false).fate, Fate::kLeaves);
  EXPECT_EQ(link.enter(0, kBytes, false).fate, Fate::kDropped);
  EXPECT_EQ(link.enter(kOnLink - 1, kBytes, false).fate, Fate::kDropped);
  EXPECT_EQ(link.enter(kOnLink, kBytes, false).fate, Fate::kLeaves);
  const BottleneckCounters& counters = link.counters();
  EXPECT_EQ(counters.packets, 13u);
  EXPECT_EQ(counters.bytes, 13u * kBytes);
  EXPECT_EQ(counters.max_packet_bytes, kBytes);
  EXPECT_EQ(counters.dropped, 2u);
  EXPECT_EQ(counters.max_queue_bytes, 10u * kBytes);
}

TEST(Bottleneck, MeanQueueIsWhatPacketsFound) {
  Bottleneck link(gigabit(), 1);
  for (int i = 0; i < 5; ++i) (void)link.enter(0, kBytes, false);
  EXPECT_EQ(link.counters().mean_queue_bytes(), 2u * kBytes);  // 0, 1, 2, 3, 4 packets
}

TEST(Bottleneck, AQueueShorterThanAPacketTakesOneWhenIdle) {
  Impairments impairments = gigabit();
  impairments.queue_bytes = 1;
  Bottleneck link(impairments, 1);
  EXPECT_EQ(link.enter(0, kBytes, false).fate, Fate::kLeaves);
  EXPECT_EQ(link.enter(0, kBytes, false).fate, Fate::kDropped);
  EXPECT_EQ(link.enter(kOnLink, kBytes, false).fate, Fate::kLeaves);
}

TEST(Bottleneck, WithoutARateThereIsNoQueue) {
  Bottleneck link({.delay = kMillisecond, .queue_bytes = 1}, 1);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(link.enter(7, kBytes, false).due, 7 + kMillisecond);
  EXPECT_EQ(link.counters().max_queue_bytes, 0u);
}

TEST(Bottleneck, MarksOnlyWhatIsCapableAndFindsMoreThanTheThreshold) {
  Impairments impairments = gigabit();
  impairments.mark_bytes = 2 * kBytes;
  Bottleneck link(impairments, 1);
  for (int i = 0; i < 3; ++i) EXPECT_FALSE(link.enter(0, kBytes, true).mark);
  EXPECT_TRUE(link.enter(0, kBytes, true).mark);
  EXPECT_FALSE(link.enter(0, kBytes, false).mark);
  EXPECT_EQ(link.counters().marked, 1u);
}

TEST(Bottleneck, LosesTheShareItIsToldTo) {
  Impairments impairments = gigabit();
  impairments.loss_ppm = 50'000;
  Bottleneck link(impairments, 7);
  constexpr int kPackets = 100'000;
  int left = 0;
  for (int i = 0; i < kPackets; ++i) {
    left += link.enter(i * kOnLink, kBytes, false).fate == Fate::kLeaves ? 1 : 0;
  }
  // Five standard deviations; the seed is fixed.
  EXPECT_NEAR(static_cast<double>(kPackets - left), 5'000, 345);
  EXPECT_EQ(link.counters().lost, static_cast<uint64_t>(kPackets - left));
  EXPECT_EQ(link.counters().dropped, 0u);
}

TEST(Bottleneck, WhatIsLostTakesItsTimeOnTheLink) {
  Impairments impairments = gigabit();
  impairments.loss_ppm = 1'000'000;
  Bottleneck link(impairments, 1);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(link.enter(0, kBytes, false).fate, Fate::kLost);
  EXPECT_EQ(link.enter(0, kBytes, false).fate, Fate::kDropped);
}

TEST(Bottleneck, DelaysTheShareThatIsToBeReordered) {
  Impairments impairments = gigabit();
  impairments.reorder_ppm = 100'000;
  impairments.reorder_by = 3 * kMillisecond;
  Bottleneck link(impairments, 1);
  uint64_t delayed = 0;
  for (int i = 0; i < 1'000; ++i) {
    const Time now = i * kOnLink;
    const Duration took = link.enter(now, kBytes, false).due - now - kOnLink - 5 * kMillisecond;
    EXPECT_TRUE(took == 0 || took == 3 * kMillisecond) << took;
    delayed += took == 0 ? 0 : 1;
  }
  EXPECT_NEAR(static_cast<double>(delayed), 100, 48);
  EXPECT_EQ(link.counters().reordered, delayed);
}

TEST(Bottleneck, JitterIsWithinItsBound) {
  Impairments impairments = gigabit();
  impairments.jitter = kMillisecond;
  Bottleneck link(impairments, 1);
  Duration most = 0;
  for (int i = 0; i < 1'000; ++i) {
    const Time now = i * kOnLink;
    const Duration took = link.enter(now, kBytes, false).due - now - kOnLink - 5 * kMillisecond;
    EXPECT_GE(took, 0);
    EXPECT_LE(took, kMillisecond);
    most = std::max(most, took);
  }
  EXPECT_GT(most, kMillisecond / 2);
}

TEST(Bottleneck, LargePacketsVanish) {
  Impairments impairments = gigabit();
  impairments.carried_bytes = kBytes;
  Bottleneck link(impairments, 1);
  EXPECT_EQ(link.enter(0, kBytes + 1, false).fate, Fate::kTooLarge);
  EXPECT_EQ(link.enter(0, kBytes, false).due, kOnLink + 5 * kMillisecond);
  EXPECT_EQ(link.counters().too_large, 1u);
}

TEST(Bottleneck, OneSeedIsOneHistory) {
  Impairments impairments = gigabit();
  impairments.loss_ppm = impairments.reorder_ppm = 200'000;
  impairments.jitter = kMillisecond;
  const auto history = [&](uint64_t seed) {
    Bottleneck link(impairments, seed);
    std::vector<Time> dues;
    for (int i = 0; i < 200; ++i) dues.push_back(link.enter(i * kOnLink, kBytes, false).due);
    return dues;
  };
  EXPECT_EQ(history(3), history(3));
  EXPECT_NE(history(3), history(4));
}

}  // namespace
}  // namespace verbena::emulated
