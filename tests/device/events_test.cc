// SPDX-License-Identifier: Apache-2.0
// What a program is told: completion channels (armed for all, for solicited ones, no wake-up lost),
// completion queues that overflow or are resized, events of shared receive queues, and which
// objects are busy.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "budget.h"
#include "pair.h"
#include "pattern.h"

namespace verbena::device::testing {
namespace {

using namespace std::chrono_literals;
using transport::Completion;
using transport::Counter;
using transport::QpState;
using transport::SendOp;
using transport::WcStatus;

// Half the patience: the other end waits meanwhile, with all of it.
[[nodiscard]] bool eventually(const std::function<bool()>& condition) {
  const auto end = std::chrono::steady_clock::now() + kPatience / 2;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(1ms);
  }
  return true;
}

// --- completion channels

TEST(Channel, SolicitedOnlyWakesForSolicitedAndErrors) {
  run_pair(
      {.channel = true},
      [](End& near) {
        near.barrier();
        near.post(0, {});
        (void)near.sent();
        near.barrier();
        near.barrier();
        near.post(0, {.flags = transport::kSolicited});
        (void)near.sent();
        near.barrier();
      },
      [](End& far) {
        for (int i = 0; i < 3; ++i) far.post_recv(0, 0, 8);
        far.context().req_notify_cq(far.recv_cq(), true);
        far.barrier();
        far.barrier();
        EXPECT_FALSE(End::readable(far.channel()->fd(), 50ms)) << "woken by a plain one";
        far.barrier();
        ASSERT_TRUE(End::readable(far.channel()->fd(), kPatience));
        CompletionQueue* cq = nullptr;
        EXPECT_EQ(far.channel()->wait(cq), 0);
        EXPECT_EQ(cq, &far.recv_cq());
        (void)far.received();
        (void)far.received();
        far.barrier();
        far.context().req_notify_cq(far.recv_cq(), true);
        far.to_error(0);
        ASSERT_TRUE(End::readable(far.channel()->fd(), kPatience)) << "an error wakes, too";
        EXPECT_EQ(far.channel()->wait(cq), 0);
        EXPECT_EQ(far.next(far.recv_cq()).status, WcStatus::kFlushed);
      });
}

// One event for one arming, however many completions come.
TEST(Channel, FiresOnce) {
  run_pair(
      {.channel = true},
      [](End& near) {
        near.barrier();
        for (int i = 0; i < 8; ++i) near.post(0, {});
        near.good(near.send_cq(), 8);
        near.barrier();
      },
      [](End& far) {
        for (int i = 0; i < 8; ++i) far.post_recv(0, 0, 8);
        far.context().req_notify_cq(far.recv_cq(), false);
        far.context().req_notify_cq(far.recv_cq(), true);  // the stronger wish stays
        far.barrier();
        far.barrier();
        far.good(far.recv_cq(), 8);
        ASSERT_TRUE(End::readable(far.channel()->fd(), kPatience));
        CompletionQueue* cq = nullptr;
        EXPECT_EQ(far.channel()->wait(cq), 0);
        EXPECT_FALSE(End::readable(far.channel()->fd(), 20ms));
      });
}

// What is destroyed takes its events with it: nobody is woken for nothing.
TEST(Channel, IsQuietWhenItsEventsAreForgotten) {
  run_pair(
      {.channel = true},
      [](End& near) {
        near.context().req_notify_cq(near.send_cq(), false);
        near.post(0, {.op = SendOp::kWrite, .bytes = 8});
        ASSERT_TRUE(End::readable(near.channel()->fd(), kPatience));
        near.channel()->forget(near.send_cq());
        EXPECT_FALSE(End::readable(near.channel()->fd(), 10ms));
        (void)near.sent();
        near.context().req_notify_cq(near.send_cq(), false);
        near.post(0, {.op = SendOp::kWrite, .bytes = 8});
        CompletionQueue* cq = nullptr;
        EXPECT_EQ(near.context().get_cq_event(*near.channel(), cq), 0);
        EXPECT_EQ(cq, &near.send_cq());
        (void)near.sent();
      },
      [](End&) {});
}

TEST(Events, AreForgottenWithTheirObject) {
  EventQueue events;
  int object = 0;
  events.raise({EventType::kQpFatal, &object});
  events.raise({EventType::kGidChange, nullptr});
  EXPECT_EQ(events.forget(&object), 0u);
  AsyncEvent event;
  ASSERT_EQ(events.wait(event), 0);
  EXPECT_EQ(event.type, EventType::kGidChange);
  EXPECT_FALSE(End::readable(events.fd(), 0ms));
  // What was given is told once: whoever destroys the object awaits its acknowledgement.
  events.raise({EventType::kQpFatal, &object});
  ASSERT_EQ(events.wait(event), 0);
  EXPECT_EQ(events.forget(&object), 1u);
  EXPECT_EQ(events.forget(&object), 0u);
  for (size_t i = 0; i < EventQueue::kMaxEvents + 10; ++i) events.raise({EventType::kGidChange});
  for (size_t i = 0; i < EventQueue::kMaxEvents; ++i) ASSERT_EQ(events.wait(event), 0);
  EXPECT_FALSE(End::readable(events.fd(), 0ms));
}

class WakeUp : public ::testing::TestWithParam<bool> {};

// As every example does: arm, poll once more, sleep. A message may come at any point between.
void sleep_for_message(End& end) {
  for (;;) {
    std::array<Completion, 1> one;
    if (end.context().poll_cq(end.recv_cq(), one) == 1) return;
    end.context().req_notify_cq(end.recv_cq(), false);
    if (end.context().poll_cq(end.recv_cq(), one) == 1) return;
    if (!End::readable(end.channel()->fd(), kPatience)) throw Broken("a wake-up was lost");
    CompletionQueue* cq = nullptr;
    must(end.channel()->wait(cq), "wait");
  }
}

TEST_P(WakeUp, IsNeverLost) {
  const uint64_t rounds = repeat(3000, 300);
  const auto ping_pong = [rounds](End& end, bool first) {
    SeededRandom random(first ? 1 : 2);
    for (int i = 0; i < 32; ++i) end.post_recv(0, 0, 8);
    end.barrier();
    for (uint64_t i = 0; i < rounds; ++i) {
      if (first) end.post(0, {.flags = 0});
      sleep_for_message(end);
      end.post_recv(0, 0, 8);
      // Now and then the answer comes while the other is between arming and sleeping.
      for (uint64_t spin = random.below(3000); spin > 0; --spin) {
        std::atomic_signal_fence(std::memory_order_seq_cst);
      }
      if (!first) end.post(0, {.flags = 0});
      std::array<Completion, 8> done;
      (void)end.send_cq().poll(done);
    }
  };
  run_pair(
      {.one_process = GetParam(), .depth = 256, .channel = true},
      [&](End& near) { ping_pong(near, true); }, [&](End& far) { ping_pong(far, false); });
}

INSTANTIATE_TEST_SUITE_P(Places, WakeUp, ::testing::Bool(), [](const auto& which) {
  return which.param ? "OneProcess" : "TwoProcesses";
});

// --- completion queues

TEST(Queue, OverflowIsAnEvent) {
  run_pair(
      {.depth = 16, .cq_entries = 4},
      [](End& near) {
        for (int i = 0; i < 16; ++i) near.post(0, {.op = SendOp::kWrite, .bytes = 8});
        const AsyncEvent event = near.next_event();
        EXPECT_EQ(event.type, EventType::kCqError);
        EXPECT_EQ(event.element, &near.send_cq());
        EXPECT_TRUE(near.send_cq().overflowed());
      },
      [](End&) {});
}

TEST(Queue, IsResizedUnderLoad) {
  run_pair(
      {.depth = 64},
      [](End& near) {
        const uint64_t count = repeat(20'000, 2000);
        std::jthread resizer([&](const std::stop_token& stop) {
          for (uint32_t i = 0; !stop.stop_requested(); ++i) {
            EXPECT_EQ(near.context().resize_cq(near.send_cq(), 64u << (i % 5)), 0);
          }
        });
        uint64_t posted = 0;
        for (uint64_t done = 0; done < count; ++done) {
          for (; posted < count && posted < done + 32; ++posted) {
            near.post(0, {.op = SendOp::kWrite, .bytes = 8, .wr_id = posted});
          }
          ASSERT_EQ(near.sent().wr_id, done);
        }
        resizer = {};
        near.bytes(0, 1)[0] = 1;
        near.bytes(64, 1)[0] = 0;
        for (int i = 0; i < 10; ++i) near.post(0, {.op = SendOp::kWrite, .bytes = 8});
        near.post(0, {.op = SendOp::kRead, .local = 64, .bytes = 8});
        // Nobody polls: the helper brings them. Not made too small before they are there, or they
        // would overflow it.
        const auto last_came = [&near] {
          const Engine::Locked locked(near.engine());
          return near.bytes(64, 1)[0] == 1;
        };
        ASSERT_TRUE(eventually(last_came));
        EXPECT_EQ(near.context().resize_cq(near.send_cq(), 4), EINVAL) << "more is in it";
        EXPECT_EQ(near.context().resize_cq(near.send_cq(), 0), EINVAL);
        near.good(near.send_cq(), 11);
      },
      [](End&) {});
}

// --- shared receive queues

TEST(SharedReceives, LimitAndLastReceiveAreEvents) {
  run_pair(
      {.queue_pairs = 2, .shared_receives = true},
      [](End& near) {
        near.barrier();
        for (uint32_t q = 0; q < 2; ++q) near.post(q, {.bytes = 8});
        near.good(near.send_cq(), 2);
      },
      [](End& far) {
        for (int i = 0; i < 3; ++i) far.post_recv(0, 0, 8);
        EXPECT_EQ(far.context().arm_srq(far.srq(), 2), 0);
        far.barrier();
        far.good(far.recv_cq(), 2);
        EXPECT_EQ(far.next_event().type, EventType::kSrqLimitReached);
        far.to_error(1);
        const AsyncEvent last = far.next_event();
        EXPECT_EQ(last.type, EventType::kQpLastWqeReached);
        EXPECT_EQ(last.element, &far.qp(1));
      });
}

// --- what is busy

TEST(Busy, ObjectsInUseStay) {
  run_pair(
      {.shared_receives = true},
      [](End& near) {
        Context& context = near.context();
        EXPECT_EQ(context.destroy_cq(near.send_cq()), EBUSY);
        EXPECT_EQ(context.destroy_cq(near.recv_cq()), EBUSY);
        EXPECT_EQ(context.dealloc_pd(near.pd()), EBUSY);
        EXPECT_EQ(context.destroy_srq(near.srq()), EBUSY);
        auto pd = *context.alloc_pd();
        auto mr = *context.reg_mr(*pd, near.bytes(0, 64).data(), 64, 0, memory::kLocalWrite);
        EXPECT_EQ(context.dealloc_pd(*pd), EBUSY) << "a region is in it";
        EXPECT_EQ(context.dereg_mr(*mr), 0);
        EXPECT_EQ(context.dealloc_pd(*pd), 0);
      },
      [](End&) {});
}

}  // namespace
}  // namespace verbena::device::testing
