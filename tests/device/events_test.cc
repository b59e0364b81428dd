// SPDX-License-Identifier: Apache-2.0
// What a program is told: completion channels (armed for all, for solicited ones, no wake-up lost),
// completion queues that overflow or are resized, errors of operations with the completions and
// events the standard gives, flushes, and which objects are busy. And what needs no telling: a
// target that never calls in serves its peer; an idle process sleeps.
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

// One thread sleeps in get_cq_event and receives for everybody; what completes is for another,
// whose program sleeps on its own descriptor and is in no hurry to call in. The peer hears at once
// nevertheless: not when its probe asks.
TEST(Channel, ASleeperForAnotherHoldsNothingBack) {
  constexpr int kRounds = 8;
  run_pair(
      {.channel = true},
      [](End& near) {
        near.barrier();
        for (int i = 0; i < kRounds; ++i) {
          std::this_thread::sleep_for(30ms);  // long enough for the far helper to sleep
          near.post(0, {.bytes = 8});
          (void)near.sent();
        }
        EXPECT_LT(near.counter(Counter::kTailProbe), kRounds / 2);
        near.barrier();
      },
      [](End& far) {
        for (int i = 0; i < kRounds; ++i) far.post_recv(0, 0, 8);
        CompletionChannel other;
        auto cq = std::move(*far.context().create_cq(4, &other));
        std::thread sleeper([&] {
          CompletionQueue* woken = nullptr;
          EXPECT_EQ(far.context().get_cq_event(other, woken), 0);
        });
        std::this_thread::sleep_for(30ms);
        far.barrier();
        far.barrier();
        other.notify(*cq);
        sleeper.join();
        far.good(far.recv_cq(), kRounds);
        EXPECT_EQ(far.context().destroy_cq(*cq), 0);
      });
}

TEST(Events, AreForgottenWithTheirObject) {
  EventQueue events;
  int object = 0;
  events.raise({EventType::kQpFatal, &object});
  events.raise({EventType::kGidChange, nullptr});
  events.forget(&object);
  AsyncEvent event;
  ASSERT_EQ(events.wait(event), 0);
  EXPECT_EQ(event.type, EventType::kGidChange);
  EXPECT_FALSE(End::readable(events.fd(), 0ms));
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

// --- errors; each on a queue pair of its own

struct Refusal {
  const char* name;
  Post post;
  uint32_t receive_bytes;  // posted at the target
  RKey key_change;         // added to the right key
  WcStatus near;
  WcStatus far;                    // of the receive; kFlushed where the message takes none
  std::optional<EventType> event;  // none: the receive's completion tells it
};

TEST(Errors, AreCompletedAndReportedAtBothEnds) {
  const uint64_t outside = uint64_t{1} << 30;
  const std::vector<Refusal> list{
      {"write, wrong key",
       {.op = SendOp::kWrite, .bytes = 8},
       8,
       RKey(256),
       WcStatus::kRemoteAccess,
       WcStatus::kFlushed,
       EventType::kQpAccessError},
      {"write, outside",
       {.op = SendOp::kWrite, .bytes = 8, .remote = outside},
       8,
       {},
       WcStatus::kRemoteAccess,
       WcStatus::kFlushed,
       EventType::kQpAccessError},
      {"read, wrong key",
       {.op = SendOp::kRead, .bytes = 8},
       8,
       RKey(1),
       WcStatus::kRemoteAccess,
       WcStatus::kFlushed,
       EventType::kQpAccessError},
      {"read, outside",
       {.op = SendOp::kRead, .bytes = 8, .remote = outside},
       8,
       {},
       WcStatus::kRemoteAccess,
       WcStatus::kFlushed,
       EventType::kQpAccessError},
      {"atomic, not aligned",
       {.op = SendOp::kFetchAdd, .bytes = 8, .remote = 4},
       8,
       {},
       WcStatus::kRemoteInvalidRequest,
       WcStatus::kFlushed,
       EventType::kQpRequestError},
      {"send, too long",
       {.op = SendOp::kSend, .bytes = 9},
       8,
       {},
       WcStatus::kRemoteInvalidRequest,
       WcStatus::kLocalLength,
       std::nullopt},
  };
  PairOptions options;
  options.queue_pairs = static_cast<uint32_t>(list.size());
  run_pair(
      options,
      [&](End& near) {
        for (uint32_t q = 0; q < list.size(); ++q) {
          SCOPED_TRACE(list[q].name);
          near.barrier();
          const std::array<memory::Sge, 1> sge{near.sge(0, list[q].post.bytes)};
          transport::SendRequest request;
          request.op = list[q].post.op;
          request.list = sge;
          request.wr_id = 5;
          request.remote_addr = RemoteAddr(near.remote_addr(list[q].post.remote));
          request.rkey = RKey(near.remote_rkey().value + list[q].key_change.value);
          EXPECT_EQ(near.context().post_send(near.qp(q), request), 0);
          const Completion completion = near.next(near.send_cq());
          EXPECT_EQ(completion.status, list[q].near) << to_string(completion.status);
          EXPECT_EQ(completion.wr_id, 5u);
          EXPECT_EQ(near.state(q), QpState::kErr);
          near.post(q, {.op = SendOp::kWrite, .bytes = 8});
          EXPECT_EQ(near.next(near.send_cq()).status, WcStatus::kFlushed);
          near.barrier();
        }
      },
      [&](End& far) {
        for (uint32_t q = 0; q < list.size(); ++q) {
          SCOPED_TRACE(list[q].name);
          far.post_recv(q, 0, list[q].receive_bytes);
          far.post_recv(q, 0, list[q].receive_bytes);
          far.barrier();
          EXPECT_EQ(far.next(far.recv_cq()).status, list[q].far);
          EXPECT_EQ(far.next(far.recv_cq()).status, WcStatus::kFlushed);
          if (list[q].event) {
            const AsyncEvent event = far.next_event();
            EXPECT_EQ(event.type, *list[q].event);
            EXPECT_EQ(event.element, &far.qp(q));
          } else {
            EXPECT_FALSE(End::readable(far.context().events().fd(), 20ms));
          }
          EXPECT_EQ(far.state(q), QpState::kErr);
          far.barrier();
        }
      });
}

TEST(Errors, OfOurOwnMemoryStayHere) {
  run_pair(
      {},
      [](End& near) {
        std::array<memory::Sge, 1> sge{near.sge(0, 8)};
        sge[0].lkey = LKey(sge[0].lkey.value ^ 0x100);
        transport::SendRequest request;
        request.list = sge;
        EXPECT_EQ(near.context().post_send(near.qp(0), request), 0);
        EXPECT_EQ(near.next(near.send_cq()).status, WcStatus::kLocalProtection);
      },
      [](End&) {});
}

TEST(Errors, NoReceiveIsRetriedThenGivenUp) {
  run_pair(
      {.queue_pairs = 2, .rnr_retry = 2},
      [](End& near) {
        near.post(0, {});
        EXPECT_EQ(near.next(near.send_cq()).status, WcStatus::kRnrRetryExceeded);
        EXPECT_EQ(near.counter(Counter::kRnrNakReceived), 3u);
      },
      [](End&) {});
  run_pair(
      {.rnr_retry = 7},
      [](End& near) {
        near.post(0, {});
        near.barrier();
        (void)near.sent();
      },
      [](End& far) {
        far.barrier();
        while (far.counter(Counter::kRnrNakSent) == 0) std::this_thread::sleep_for(1ms);
        far.post_recv(0, 0, 8);
        (void)far.received();
      });
}

TEST(Errors, AGonePeerIsNoticed) {
  run_pair(
      {.timeout = 8, .retry_count = 2},
      [](End& near) {
        near.barrier();
        near.post(0, {.op = SendOp::kWrite, .bytes = 8, .wr_id = 1});
        near.post(0, {.op = SendOp::kWrite, .bytes = 8, .wr_id = 2});
        const Completion completion = near.next(near.send_cq());
        EXPECT_EQ(completion.status, WcStatus::kRetryExceeded);
        EXPECT_EQ(completion.wr_id, 1u);
        EXPECT_EQ(near.next(near.send_cq()).status, WcStatus::kFlushed);
      },
      [](End& far) {
        far.to_error(0);
        far.barrier();
      });
}

TEST(Errors, FlushEverythingPosted) {
  run_pair(
      {.queue_pairs = 2, .rnr_retry = 7},
      [](End& near) {
        for (uint64_t i = 0; i < 20; ++i) near.post(0, {.wr_id = i});
        for (uint64_t i = 0; i < 20; ++i) near.post_recv(0, 0, 8, i);
        near.to_error(0);
        for (uint64_t i = 0; i < 20; ++i) {
          const Completion send = near.next(near.send_cq());
          const Completion receive = near.next(near.recv_cq());
          EXPECT_EQ(send.status, WcStatus::kFlushed);
          EXPECT_EQ(send.wr_id, i);
          EXPECT_EQ(receive.status, WcStatus::kFlushed);
          EXPECT_EQ(receive.wr_id, i);
        }
      },
      [](End&) {});
}

// As a program does that drains a queue pair: the last receive it posts tells that all are back.
TEST(Errors, AReceivePostedLateIsFlushed) {
  run_pair(
      {.channel = true},
      [](End& near) {
        near.to_error(0);
        std::this_thread::sleep_for(100ms);  // the helper sleeps again
        near.post_recv(0, 0, 8, 1);
        EXPECT_EQ(near.next(near.recv_cq()).wr_id, 1u);
        near.context().req_notify_cq(near.recv_cq(), false);
        std::this_thread::sleep_for(100ms);
        near.post_recv(0, 0, 8, 2);
        EXPECT_TRUE(End::readable(near.channel()->fd(), kPatience));
        EXPECT_EQ(near.next(near.recv_cq()).wr_id, 2u);
      },
      [](End&) {});
}

// --- leaving

// What was completed here is acknowledged, though the program ends at once and closes nothing.
TEST(Leaving, ExitSendsTheLastAcknowledgement) {
  for (int round = 0; round < 5; ++round) {
    auto [ours, theirs] = Control::make();
    (void)engine_options();
    std::fflush(nullptr);
    const int pid = ::fork();
    ASSERT_GE(pid, 0);
    if (pid == 0) {
      ours.close();
      auto* const far = new End({.timeout = 10, .retry_count = 3}, std::move(theirs), false);
      far->post_recv(0, 0, 8);
      far->barrier();
      (void)far->received();
      std::exit(0);  // NOLINT(concurrency-mt-unsafe)
    }
    theirs.close();
    {
      End near({.timeout = 10, .retry_count = 3}, std::move(ours), false);
      near.barrier();
      near.post(0, {.bytes = 8});
      EXPECT_EQ(near.next(near.send_cq()).status, WcStatus::kSuccess);
    }
    ASSERT_EQ(::waitpid(pid, nullptr, 0), pid);
  }
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

// --- taking down what is in use

TEST(Destroy, WhileTrafficFlows) {
  for (uint64_t round = 0; round < repeat(12, 4); ++round) {
    run_pair(
        {.one_process = round % 2 == 1, .queue_pairs = 16, .seed = round},
        [](End& near) {
          for (uint32_t i = 0; i < 8; ++i) {
            for (uint32_t q = 0; q < 16; ++q) {
              near.post(q, {.op = (q + i) % 2 == 0 ? SendOp::kWrite : SendOp::kRead,
                            .local = 65536 * q,
                            .bytes = 65'000,
                            .remote = 65536 * q});
            }
          }
        },
        [](End& far) {
          for (uint32_t q = 0; q < 16; ++q) {
            far.post(q, {.op = SendOp::kWrite,
                         .local = 65536 * q,
                         .bytes = 65'000,
                         .remote = (2 << 20) + 65536 * q});
          }
        });
  }
}

// --- progress without the program

TEST(Progress, ATargetThatNeverCallsInServes) {
  run_pair(
      {},
      [](End& near) {
        uint64_t value = 0;
        for (uint64_t i = 0; i < repeat(500, 100); ++i) {
          fill(near.bytes(4096, 9000), i);
          near.post(0, {.op = SendOp::kWrite, .local = 4096, .bytes = 9000, .remote = 4096});
          near.post(0, {.op = SendOp::kRead, .local = 65536, .bytes = 9000, .remote = 4096});
          near.post(0, {.op = SendOp::kFetchAdd, .local = 8, .bytes = 8, .compare_add = 3});
          near.good(near.send_cq(), 3);
          ASSERT_EQ(differs(near.bytes(65536, 9000), i), "");
          std::memcpy(&value, near.bytes(8, 8).data(), 8);
          ASSERT_EQ(value, 3 * i);
        }
        near.barrier();
      },
      // Asleep in the kernel on something that is not the device's.
      [](End& far) { far.barrier(); });
}

[[nodiscard]] std::chrono::microseconds processor_time() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return std::chrono::seconds(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
         std::chrono::microseconds(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

[[nodiscard]] uint64_t helper_wakeups(End& end) {
  const Engine::Locked locked(end.engine());
  return end.engine().counters().helper_wakeups;
}

TEST(Progress, IdleProcessesSleep) {
  const auto idle = [](End& end) {
    end.barrier();
    // After traffic the helper looks up for a little while, on a busy machine for longer, and so it
    // does after each look at its counters.
    const auto sleeps = [] {
      const auto before = processor_time();
      std::this_thread::sleep_for(400ms);
      return processor_time() - before < 4ms;
    };
    // ThreadSanitizer has a thread of its own.
    if (!kThreadSanitizer) {
      EXPECT_TRUE(eventually(sleeps)) << "a hundredth of a processor is taken";
    }
    const auto rests = [&end] {
      const uint64_t wakeups = helper_wakeups(end);
      std::this_thread::sleep_for(400ms);
      return helper_wakeups(end) - wakeups < 60;
    };
    EXPECT_TRUE(eventually(rests)) << "the helper ticks";
  };
  run_pair(
      {.channel = true},
      [&](End& near) {
        for (int i = 0; i < 100; ++i) {
          near.post(0, {.op = SendOp::kRead, .bytes = 5000});
          (void)near.sent();
        }
        near.context().req_notify_cq(near.recv_cq(), false);
        idle(near);
      },
      [&](End& far) {
        far.post_recv(0, 0, 8);
        far.context().req_notify_cq(far.recv_cq(), false);
        idle(far);
      });
}

}  // namespace
}  // namespace verbena::device::testing
