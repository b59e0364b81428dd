// SPDX-License-Identifier: Apache-2.0
#include "device/poll_lease.h"

#include <gtest/gtest.h>

namespace verbena::device {
namespace {

constexpr Time kLeaseStart = kSecond;

TEST(PollLease, APollTakesItAndSilenceEndsIt) {
  PollLease lease;
  EXPECT_FALSE(lease.held(kLeaseStart));
  lease.on_poll(kLeaseStart);
  EXPECT_TRUE(lease.held(kLeaseStart + PollLease::kFull - 1));
  EXPECT_FALSE(lease.held(kLeaseStart + PollLease::kFull));
  EXPECT_EQ(lease.end(), kLeaseStart + PollLease::kFull);
}

TEST(PollLease, CompletionsAndPostsExtendItButDoNotTakeIt) {
  PollLease lease;
  lease.extend(kLeaseStart);
  lease.on_post(kLeaseStart);
  EXPECT_FALSE(lease.held(kLeaseStart));
  lease.on_poll(kLeaseStart);
  lease.extend(kLeaseStart + 400 * kMicrosecond);
  EXPECT_TRUE(lease.held(kLeaseStart + 800 * kMicrosecond));
  lease.on_post(kLeaseStart + kMillisecond);  // took longer than the lease
  EXPECT_TRUE(lease.held(kLeaseStart + kMillisecond));
  lease.give_up();
  EXPECT_FALSE(lease.held(kLeaseStart + kMillisecond));
  lease.on_post(kLeaseStart + kMillisecond);
  EXPECT_FALSE(lease.held(kLeaseStart + kMillisecond));
}

// A thousand threads post, and the one that polls is off its core: the helper must come.
TEST(PollLease, PostsAloneDoNotKeepItForEver) {
  PollLease lease;
  lease.on_poll(kLeaseStart);
  Time now = kLeaseStart;
  while (lease.held(now) && now < kLeaseStart + kSecond) {
    now += PollLease::kFull / 10;
    lease.on_post(now);
  }
  EXPECT_GT(now - kLeaseStart, 5 * kMillisecond) << "a burst of posts is no reason to lose it";
  EXPECT_LT(now - kLeaseStart, 20 * kMillisecond);
  lease.on_poll(now);
  now += PollLease::kFull / 2;
  lease.on_post(now);
  EXPECT_TRUE(lease.held(now + PollLease::kFull - 1));
}

TEST(PollLease, WhereALookTakesLongItIsLonger) {
  PollLease lease;
  for (int i = 0; i < 100; ++i) lease.on_empty_look(500);
  EXPECT_EQ(lease.full(), PollLease::kFull);
  for (int i = 0; i < 100; ++i) lease.on_empty_look(10 * kMicrosecond);
  EXPECT_EQ(lease.full(), 5 * kMillisecond);
  lease.on_poll(kLeaseStart);
  EXPECT_EQ(lease.end(), kLeaseStart + 5 * kMillisecond);
  for (int i = 0; i < 100; ++i) lease.on_empty_look(i % 2 == 0 ? kMillisecond : 20 * kMicrosecond);
  EXPECT_LT(lease.full(), 12 * kMillisecond) << "long ones are not the machine's";
  for (int i = 0; i < 200; ++i) lease.on_empty_look(kSecond);
  EXPECT_EQ(lease.full(), PollLease::kLongestFull);
  lease.on_empty_look(500);
  EXPECT_EQ(lease.full(), PollLease::kFull);
}

TEST(PollLease, WhoLooksAgainAndAgainWhileAQueueIsArmedIsAwake) {
  PollLease lease;
  Time now = kLeaseStart;
  const auto looks_until_awake = [&](Duration apart, int most) {
    int looks = 1;
    while (looks < most && !lease.on_look_while_armed(now += apart)) ++looks;
    return looks;
  };
  lease.on_armed();
  const int needed = looks_until_awake(kMicrosecond, 1000);
  EXPECT_GT(needed, 10);
  EXPECT_LT(needed, 1000);
  // Once or twice, then it sleeps: each time from the start.
  for (int i = 0; i < 1000; ++i) {
    lease.on_armed();
    EXPECT_EQ(looks_until_awake(kMicrosecond, 3), 3);
  }
  // One that is elsewhere in between.
  lease.on_armed();
  EXPECT_EQ(looks_until_awake(100 * kMicrosecond, 1000), 1000);
}

// A program that polls once in each turn and then spins on memory, where packets reach it late.
[[nodiscard]] Time spin_on_memory(PollLease& lease, Time now, int turns) {
  for (int i = 0; i < turns; ++i) {
    lease.on_poll(now);
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
  const Time now = spin_on_memory(lease, kLeaseStart, 20);
  lease.on_poll(now);
  EXPECT_FALSE(lease.held(now));
}

TEST(PollLease, OneThatIsOffItsCoreNowAndThenKeepsIt) {
  PollLease lease;
  Time now = kLeaseStart;
  for (int i = 0; i < 1000; ++i) {
    lease.on_poll(now);
    ASSERT_TRUE(lease.held(now));
    lease.on_batch(now += 10 * kMicrosecond);
    if (i % 12 == 11) lease.on_late(now += kMillisecond);
  }
}

// How many batches a poller must come for to have its lease again.
[[nodiscard]] int trial(PollLease& lease, Time& now) {
  int batches = 0;
  while (!lease.held(now)) {
    lease.on_poll(now);
    lease.on_batch(now += 10 * kMicrosecond);
    ++batches;
  }
  return batches;
}

TEST(PollLease, ComingForPacketsEarnsItAgainLaterEachTime) {
  PollLease lease;
  Time now = kLeaseStart;
  int before = 0;
  for (int i = 0; i < 3; ++i) {
    now = spin_on_memory(lease, now, 20);
    const int took = trial(lease, now);
    EXPECT_GT(took, before);
    before = took;
  }
  // It is whole again in the end.
  for (int i = 0; i < 10'000; ++i) lease.on_batch(now += kMicrosecond);
  EXPECT_EQ(lease.end(), now + PollLease::kFull);
}

}  // namespace
}  // namespace verbena::device
