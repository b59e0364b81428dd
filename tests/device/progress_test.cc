// SPDX-License-Identifier: Apache-2.0
// What needs no call: a target that never calls in serves its peer, an idle process sleeps, who
// exits has acknowledged what it saw; and objects are taken down while traffic flows.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

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
using transport::SendOp;
using transport::WcStatus;

// What was completed here is acknowledged, though the program ends at once and closes nothing.
TEST(Leaving, ExitSendsTheLastAcknowledgement) {
  // Once under AddressSanitizer, which looks for leaks at each exit, for seconds on some machines.
  for (uint64_t round = 0; round < repeat(5, 1); ++round) {
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

// Of as many as there is patience for.
template <typename Quiet>
[[nodiscard]] bool in_some_window(Quiet&& quiet) {
  const auto end = std::chrono::steady_clock::now() + kPatience;
  do {
    if (quiet()) return true;
  } while (std::chrono::steady_clock::now() < end);
  return false;
}

TEST(Progress, IdleProcessesSleep) {
  const auto idle = [](End& end) {
    end.barrier();
    // After traffic the helper looks up for a little while; on a busy machine that takes its time.
    // That it rests then, in simulated time: tests/progress_sim, tests/host_sim.
    const auto sleeps = [] {
      const auto before = processor_time();
      std::this_thread::sleep_for(400ms);
      return processor_time() - before < 4ms;
    };
    // ThreadSanitizer has a thread of its own.
    if (!kThreadSanitizer) {
      EXPECT_TRUE(in_some_window(sleeps)) << "a hundredth of a processor is taken";
    }
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
