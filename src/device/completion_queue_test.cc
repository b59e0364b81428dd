// SPDX-License-Identifier: Apache-2.0
// When a completion queue raises its event, and that what is seen in it is whole: between the one
// thread that fills it and those that poll and arm, who share no lock.
#include "device/completion_queue.h"

#include <array>
#include <atomic>
#include <thread>

#include <gtest/gtest.h>
#include <poll.h>

#include "device/completion_channel.h"

namespace verbena::device {
namespace {

using transport::Completion;
using transport::WcStatus;

struct NoOwner final : CompletionOwner {
  void completion_staged(CompletionQueue&) override {}
  void completion_overflow(CompletionQueue&) override { ++overflows; }
  void completion_failed(Qpn) override {}
  int overflows = 0;
};

class CompletionQueueTest : public ::testing::Test {
 protected:
  void complete(bool solicited = false, WcStatus status = WcStatus::kSuccess) {
    Completion completion{.wr_id = next_++};
    completion.status = status;
    completion.solicited = solicited;
    cq_.push(completion);
  }
  // Completes one and shows it; whether that raised an event.
  bool bring(bool solicited = false, WcStatus status = WcStatus::kSuccess) {
    complete(solicited, status);
    return cq_.publish();
  }
  uint32_t poll(uint32_t most) {
    std::array<Completion, 16> out;
    return cq_.poll(std::span(out).first(most));
  }
  // The events in the channel, taken out of it.
  uint32_t events() {
    uint32_t count = 0;
    for (CompletionQueue* from = nullptr; channel_.take(from); ++count) EXPECT_EQ(from, &cq_);
    return count;
  }

  NoOwner owner_;
  CompletionChannel channel_;
  CompletionQueue cq_{owner_, 16, &channel_};
  uint64_t next_ = 0;
};

TEST_F(CompletionQueueTest, OneEventForOneWish) {
  EXPECT_FALSE(bring());
  EXPECT_EQ(poll(16), 1u);
  EXPECT_FALSE(cq_.arm(false)) << "nothing is there";
  EXPECT_FALSE(cq_.arm(false));
  EXPECT_TRUE(bring());
  EXPECT_FALSE(bring());
  EXPECT_EQ(events(), 1u);
}

// As on a NIC, which is told how far the program has polled: who polls some and then sleeps is
// woken for the rest.
TEST_F(CompletionQueueTest, WhatWasNotPolledRaisesTheEventAtOnce) {
  for (int i = 0; i < 3; ++i) complete();
  EXPECT_FALSE(cq_.publish());
  EXPECT_EQ(poll(2), 2u);
  EXPECT_TRUE(cq_.arm(false));
  EXPECT_EQ(events(), 1u);
  EXPECT_FALSE(cq_.armed());
  EXPECT_EQ(poll(16), 1u);
  EXPECT_FALSE(cq_.arm(false));
  EXPECT_EQ(events(), 0u);
  // What is not shown yet is not there yet.
  complete();
  EXPECT_FALSE(cq_.arm(true));
  EXPECT_TRUE(cq_.publish());
  EXPECT_EQ(events(), 1u);
}

// The man page's order: event, arm, poll. The event was for what is there: no second one, unless
// the poll leaves some of it.
TEST_F(CompletionQueueTest, ArmedBeforeItIsPolledItRaisesOnlyForWhatThePollLeaves) {
  EXPECT_FALSE(cq_.arm(false));
  EXPECT_TRUE(bring());
  EXPECT_EQ(events(), 1u);
  EXPECT_FALSE(cq_.arm(false));
  EXPECT_EQ(poll(1), 1u);
  EXPECT_EQ(events(), 0u);
  EXPECT_TRUE(cq_.armed());

  complete();
  complete();
  complete();
  EXPECT_TRUE(cq_.publish());
  EXPECT_EQ(events(), 1u);
  EXPECT_FALSE(cq_.arm(false));
  EXPECT_EQ(poll(2), 2u);
  EXPECT_EQ(events(), 1u) << "one was left";
  EXPECT_EQ(poll(2), 1u);
  EXPECT_FALSE(cq_.arm(false));
  EXPECT_EQ(events(), 0u);
}

TEST_F(CompletionQueueTest, ForSolicitedOnesOnlyThoseCount) {
  EXPECT_FALSE(bring(true));
  EXPECT_FALSE(bring());
  EXPECT_TRUE(cq_.arm(true)) << "the solicited one was not polled";
  EXPECT_EQ(poll(1), 1u);
  EXPECT_FALSE(cq_.arm(true)) << "the other one does not count";
  EXPECT_FALSE(bring());
  EXPECT_EQ(events(), 1u);
  EXPECT_TRUE(cq_.arm(false)) << "now all count";
  EXPECT_EQ(poll(16), 2u);
  EXPECT_FALSE(cq_.arm(true));
  EXPECT_TRUE(bring(false, WcStatus::kFlushed)) << "an error does";
}

// The mark of a solicited one is gone with it.
TEST_F(CompletionQueueTest, ASolicitedOneOfEarlierWakesNobody) {
  EXPECT_FALSE(bring(true)) << "nobody waits";
  EXPECT_EQ(poll(16), 1u);
  EXPECT_FALSE(cq_.arm(true));
  EXPECT_FALSE(bring(false));
  EXPECT_EQ(events(), 0u);
  EXPECT_TRUE(bring(true));
  EXPECT_EQ(poll(16), 2u);
  EXPECT_FALSE(cq_.arm(true));
  EXPECT_FALSE(bring(false)) << "nor does one that woke somebody";
  EXPECT_EQ(events(), 1u);
}

// One thread fills, one arms, polls and sleeps, with nothing else between them. ThreadSanitizer
// sees if a completion is shown without order; a wake-up that is lost is a wait that does not end.
TEST_F(CompletionQueueTest, IsWholeBetweenTwoThreads) {
  constexpr uint64_t kRounds = 20'000;
  std::atomic<uint64_t> polled = 0;  // relaxed: must not order what the queue has to
  std::jthread engine([&] {
    for (uint64_t i = 0; i < kRounds; ++i) {
      while (i - polled.load(std::memory_order_relaxed) >= 8) std::this_thread::yield();
      Completion completion{.wr_id = i};
      completion.byte_len = static_cast<uint32_t>(i * 3);
      completion.solicited = i % 2 == 0;
      cq_.push(completion);
      (void)cq_.publish();
    }
  });
  uint64_t seen = 0;
  int sleeps = 0;
  while (seen < kRounds) {
    std::array<Completion, 2> some;
    uint32_t got = cq_.poll(some);
    if (got == 0) {
      const bool there = cq_.arm(false);
      got = cq_.poll(some);
      if (got == 0 || there) {
        pollfd ready{channel_.fd(), POLLIN, 0};
        ASSERT_EQ(::poll(&ready, 1, 60'000), 1) << "a wake-up was lost at " << seen;
        CompletionQueue* from = nullptr;
        ASSERT_TRUE(channel_.take(from));
        ++sleeps;
      }
    }
    for (uint32_t i = 0; i < got; ++i, ++seen) {
      ASSERT_EQ(some[i].wr_id, seen);
      ASSERT_EQ(some[i].byte_len, static_cast<uint32_t>(seen * 3));
    }
    polled.store(seen, std::memory_order_relaxed);
  }
  EXPECT_GT(sleeps, 0);
  EXPECT_EQ(owner_.overflows, 0);
}

}  // namespace
}  // namespace verbena::device
