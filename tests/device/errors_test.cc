// SPDX-License-Identifier: Apache-2.0
// Operations that go wrong: the completions and events that the standard gives, at both ends, and
// the flush of everything posted.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

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
        // Each one is for a packet that was sent: the first, two retries, and on a slow machine
        // copies that were sent before the answer was read.
        const uint64_t naks = near.counter(Counter::kRnrNakReceived);
        EXPECT_GE(naks, 3u);
        EXPECT_LE(naks, 1 + near.counter(Counter::kRetransmittedPackets));
        if (near.counter(Counter::kTailProbe) + near.counter(Counter::kTimeout) == 0) {
          EXPECT_EQ(naks, 3u);
        }
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

// Until the helper sleeps: nothing woke it between two looks.
void until_helper_sleeps(End& end) {
  const auto wakeups = [&end] {
    const Engine::Quiet quiet(end.engine());
    return end.engine().counters().helper_wakeups;
  };
  const auto until = std::chrono::steady_clock::now() + kPatience;
  for (uint64_t before = wakeups(); std::chrono::steady_clock::now() < until;) {
    std::this_thread::sleep_for(20ms);
    const uint64_t now = wakeups();
    if (std::exchange(before, now) == now) return;
  }
  ADD_FAILURE() << "the helper finds no rest";
}

// As a program does that drains a queue pair: the last receive it posts tells that all are back.
TEST(Errors, AReceivePostedLateIsFlushed) {
  run_pair(
      {.channel = true},
      [](End& near) {
        near.to_error(0);
        until_helper_sleeps(near);
        near.post_recv(0, 0, 8, 1);
        EXPECT_EQ(near.next(near.recv_cq()).wr_id, 1u);
        near.context().req_notify_cq(near.recv_cq(), false);
        until_helper_sleeps(near);
        near.post_recv(0, 0, 8, 2);
        EXPECT_TRUE(End::readable(near.channel()->fd(), kPatience));
        EXPECT_EQ(near.next(near.recv_cq()).wr_id, 2u);
      },
      [](End&) {});
}

}  // namespace
}  // namespace verbena::device::testing
