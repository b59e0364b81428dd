// SPDX-License-Identifier: Apache-2.0
// Progress with a clock of the test's and work that only counts. Threads beside each other:
// tests/progress_sim.
#include "device/progress.h"

#include <gtest/gtest.h>

namespace verbena::device {
namespace {

struct FakeWorld final : ProgressWorld {
  Time now = kSecond;
  Time clock() const override { return now; }
  Ready sleep_helper(Time /*until*/, Wakes /*wakes*/) override { return {}; }
  void wake_helper() override {}
  Woken sleep_receiving(CompletionChannel& /*channel*/, bool /*may_sleep*/) override { return {}; }
  int sleep_on(CompletionChannel& /*channel*/, CompletionQueue*& /*cq*/) override { return 0; }
};

struct CountingWork final : ProgressWork {
  int looks = 0;
  bool polling = false;
  size_t receive(link::Look /*look*/, Time /*now*/) override { return 0; }
  size_t receive_ready(link::ReadyFds /*ready*/, Time /*now*/) override { return 0; }
  bool may_have_left() const override { return false; }
  Looked look(Time /*now*/) override {
    ++looks;
    return {};
  }
  bool quiet = false;
  bool is_quiet() const override { return quiet; }
  uint64_t packets_received() const override { return 0; }
  bool expects_more() const override { return false; }
  void settle(Time /*now*/, Acks /*acks*/) override {}
  bool owes_acks() const override { return false; }
  bool has_completions() const override { return false; }
  bool is_stalled() const override { return false; }
  bool has_work(Time /*now*/) override { return false; }
  Time next_deadline() override { return kNever; }
  void on_ready(Time /*now*/, bool /*readable*/) override {}
  Time note_troubles(Time /*now*/) override { return kNever; }
  void tell_troubles() override {}
  bool prepare_sleep() override { return true; }
  void woke(link::ReadyFds /*ready*/) override {}
  void set_polling(bool value) override { polling = value; }
};

class ProgressTest : public ::testing::Test {
 protected:
  EngineLock lock_;
  FakeWorld world_;
  CountingWork work_;
  Progress progress_{lock_, world_, work_};
};

// A queue that is never empty: with 1,024 busy queue pairs it hardly ever is.
TEST_F(ProgressTest, WhoAlwaysFindsCompletionsReceivesNowAndThen) {
  constexpr int kPolls = 1000;
  for (int i = 0; i < kPolls; ++i) {
    progress_.still_polling();
    world_.now += kMicrosecond;
  }
  EXPECT_TRUE(work_.polling);
  EXPECT_GE(work_.looks, kPolls / 20);
  EXPECT_LE(work_.looks, kPolls / 5) << "what was found should be worth the look";
}

// To read the clock and to look at all timers costs more than to see that nothing is there.
TEST_F(ProgressTest, WhoPollsWithoutPauseLooksAtEverythingNowAndThen) {
  constexpr int kPolls = 1600;
  work_.quiet = true;
  for (int i = 0; i < kPolls; ++i) {
    progress_.poll();
    world_.now += 50;
  }
  EXPECT_LE(work_.looks, kPolls / 10);
  EXPECT_GE(work_.looks, kPolls / 20) << "timers are looked at in time";
}

TEST_F(ProgressTest, WhoPollsSeldomLooksAtEverythingEachTime) {
  work_.quiet = true;
  for (int i = 0; i < 100; ++i) {
    progress_.poll();
    world_.now += 20 * kMicrosecond;
  }
  EXPECT_EQ(work_.looks, 100);
}

TEST_F(ProgressTest, WhatIsThereIsSeenAtOnce) {
  work_.quiet = true;
  for (int i = 0; i < 3; ++i) progress_.poll();
  const int looks = work_.looks;
  work_.quiet = false;
  progress_.poll();
  EXPECT_EQ(work_.looks, looks + 1);
}

TEST_F(ProgressTest, WhoIsAboutToSleepLeavesReceivingToTheHelper) {
  progress_.armed();
  for (int i = 0; i < 100; ++i) {
    progress_.still_polling();
    world_.now += kMillisecond;
  }
  EXPECT_EQ(work_.looks, 0);
  EXPECT_FALSE(work_.polling);
}

}  // namespace
}  // namespace verbena::device
