// SPDX-License-Identifier: Apache-2.0
#include "device/poll_lease.h"

#include <gtest/gtest.h>

namespace verbena::device {
namespace {

constexpr Time kStart = kSecond;

TEST(PollLease, APollTakesItAndSilenceEndsIt) {
  PollLease lease;
  EXPECT_FALSE(lease.held(kStart));
  EXPECT_TRUE(lease.on_poll(kStart));
  EXPECT_TRUE(lease.held(kStart + PollLease::kFull - 1));
  EXPECT_FALSE(lease.held(kStart + PollLease::kFull));
  EXPECT_EQ(lease.end(), kStart + PollLease::kFull);
}

TEST(PollLease, CompletionsAndPostsExtendItButDoNotTakeIt) {
  PollLease lease;
  lease.extend(kStart);
  lease.on_post(kStart);
  EXPECT_FALSE(lease.held(kStart));
  (void)lease.on_poll(kStart);
  lease.extend(kStart + 400 * kMicrosecond);
  EXPECT_TRUE(lease.held(kStart + 800 * kMicrosecond));
  lease.on_post(kStart + kMillisecond);  // took longer than the lease
  EXPECT_TRUE(lease.held(kStart + kMillisecond));
  lease.give_up();
  EXPECT_FALSE(lease.held(kStart + kMillisecond));
  lease.on_post(kStart + kMillisecond);
  EXPECT_FALSE(lease.held(kStart + kMillisecond));
}

// A program that polls once in each turn and then spins on memory, where packets reach it late.
[[nodiscard]] Time spin_on_memory(PollLease& lease, Time now, int turns) {
  for (int i = 0; i < turns; ++i) {
    (void)lease.on_poll(now);
    if (lease.held(now)) {
      now = lease.end();
      lease.on_late(now);
    }
    now += 30 * kMicrosecond;
  }
  return now;
}

TEST(PollLease, OneThatWaitsElsewhereLosesIt) {
  PollLease lease;
  const Time now = spin_on_memory(lease, kStart, 20);
  EXPECT_FALSE(lease.on_poll(now));
  EXPECT_FALSE(lease.held(now));
}

TEST(PollLease, OneThatIsOffItsCoreNowAndThenKeepsIt) {
  PollLease lease;
  Time now = kStart;
  for (int i = 0; i < 1000; ++i) {
    ASSERT_TRUE(lease.on_poll(now));
    lease.on_batch(now += 10 * kMicrosecond);
    if (i % 12 == 11) lease.on_late(now += kMillisecond);
  }
}

// How long a program must poll without a pause to have its lease again.
[[nodiscard]] Duration trial(PollLease& lease, Time& now) {
  const Time start = now;
  while (!lease.on_poll(now)) now += kMicrosecond;
  return now - start;
}

TEST(PollLease, SteadyPollingEarnsItAgainLaterEachTime) {
  PollLease lease;
  Time now = kStart;
  Duration before = 0;
  for (int i = 0; i < 3; ++i) {
    now = spin_on_memory(lease, now, 20);
    const Duration took = trial(lease, now);
    EXPECT_GT(took, before);
    before = took;
  }
  EXPECT_LE(before, PollLease::kLongestTrial + PollLease::kFirstTrial);
  // It is whole again after a time of coming for its packets.
  for (int i = 0; i < 100; ++i) lease.on_batch(now);
  for (int i = 0; i < 1000; ++i) (void)lease.on_poll(now += kMicrosecond);
  EXPECT_EQ(lease.end(), now + PollLease::kFull);
}

}  // namespace
}  // namespace verbena::device
