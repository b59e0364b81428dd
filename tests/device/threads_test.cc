// SPDX-License-Identifier: Apache-2.0
// Any call from any thread, as verbs promise: threads that share completion queues and queue pairs,
// threads with their own, others that register memory and make and destroy objects all the while.
// For the sanitizers first of all; what was done is counted and compared as well.
#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "budget.h"
#include "pair.h"
#include "pattern.h"

namespace verbena::device::testing {
namespace {

using transport::Completion;
using transport::QpState;
using transport::SendOp;

constexpr uint32_t kShared = 0;        // a queue pair for all
constexpr uint32_t kWorkers = 3;       // queue pairs 1 to 3 are theirs
constexpr uint64_t kArea = 64 * 1024;  // a worker's memory
constexpr uint32_t kBytes = 5000;

// Beside work that shares the engine's lock: without a pause they would have it nearly always.
void breathe() { std::this_thread::sleep_for(std::chrono::microseconds(200)); }

// What all threads of one end work on. Completions are taken from the shared queue by whoever
// polls.
struct Crew {
  explicit Crew(End& which) : end(which) {}
  End& end;
  std::array<std::atomic<uint64_t>, kWorkers + 1> done{};  // by queue pair
  std::atomic<bool> stop{false};
  std::atomic<bool> failed{false};

  void reap() {
    std::array<Completion, 4> some;
    const uint32_t n = end.context().poll_cq(end.send_cq(), some);
    for (uint32_t i = 0; i < n; ++i) {
      if (some[i].status != transport::WcStatus::kSuccess && !failed.exchange(true)) {
        ADD_FAILURE() << "queue pair " << some[i].wr_id << ": " << to_string(some[i].status);
      }
      ++done.at(some[i].wr_id);
    }
  }
  void wait_for(uint64_t which, uint64_t count) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (done.at(which) < count && !failed) {
      reap();
      if (std::chrono::steady_clock::now() > deadline) {
        failed = true;
        ADD_FAILURE() << "queue pair " << which << " stands still";
      }
    }
  }
};

// Writes, reads back, compares, on a queue pair of its own; adds one on the shared one.
void work(Crew& crew, uint32_t worker, uint64_t rounds) {
  End& end = crew.end;
  const uint64_t base = kArea * worker;
  for (uint64_t i = 0; i < rounds && !crew.failed; ++i) {
    const uint64_t seed = i * 8 + worker;
    fill(end.bytes(base, kBytes), seed);
    // The target lies apart from what the other end's worker sends and reads.
    const uint64_t target = base + kArea / 4;
    const auto post = [&](SendOp op, uint64_t local) {
      const Post what{.op = op, .local = local, .bytes = kBytes, .remote = target, .wr_id = worker};
      EXPECT_EQ(end.try_post(worker, what), 0);
    };
    post(SendOp::kWrite, base);
    post(SendOp::kRead, base + kArea / 2);
    while (end.try_post(kShared, {.op = SendOp::kFetchAdd,
                                  .local = 8 * worker,
                                  .bytes = 8,
                                  .compare_add = 1,
                                  .wr_id = kShared}) != 0) {
      crew.reap();  // the others filled it
    }
    crew.wait_for(worker, 2 * (i + 1));
    if (crew.failed) return;
    const std::string wrong = differs(end.bytes(base + kArea / 2, kBytes), seed);
    if (!wrong.empty()) {
      crew.failed = true;
      ADD_FAILURE() << "worker " << worker << ", round " << i << ": " << wrong;
    }
  }
}

void register_all_the_while(Crew& crew) {
  Context& context = crew.end.context();
  std::vector<uint8_t> memory(100'000);
  while (!crew.stop) {
    breathe();
    auto pd = *context.alloc_pd();
    std::vector<std::unique_ptr<Mr>> mrs;
    for (int i = 0; i < 8; ++i) {
      mrs.push_back(
          *context.reg_mr(*pd, memory.data(), memory.size(), 0, memory::kLocalWrite | kAllRemote));
    }
    const auto window = *context.alloc_mw(*pd, memory::WindowType::kType1);
    EXPECT_EQ(context.dealloc_mw(window), 0);
    for (const auto& mr : mrs) EXPECT_EQ(context.dereg_mr(*mr), 0);
    EXPECT_EQ(context.dealloc_pd(*pd), 0);
  }
}

// Queue pairs that live shortly: made, brought into error with work posted, polled, destroyed.
void create_all_the_while(Crew& crew) {
  Context& context = crew.end.context();
  while (!crew.stop) {
    breathe();
    auto cq = *context.create_cq(64, nullptr);
    auto srq = *context.create_srq(crew.end.pd(), {.entries = 16, .max_sge = 1});
    std::vector<std::unique_ptr<Qp>> qps;
    for (int i = 0; i < 4; ++i) {
      QpRequest request;
      request.send_cq = request.recv_cq = cq.get();
      request.send = {4, 1, 0};
      request.srq = i == 0 ? srq.get() : nullptr;
      request.max_recv_entries = request.srq == nullptr ? 4 : 0;
      request.max_recv_sge = request.srq == nullptr ? 1 : 0;
      qps.push_back(*context.create_qp(crew.end.pd(), request));
      transport::QpAttr attr;
      attr.port = 1;
      attr.state = QpState::kInit;
      EXPECT_EQ(context.modify_qp(*qps.back(), attr,
                                  transport::kAttrState | transport::kAttrPkeyIndex |
                                      transport::kAttrPort | transport::kAttrAccess),
                0);
      if (i != 0) {
        EXPECT_EQ(context.post_recv(*qps.back(), {7, {}}), 0);
      }
      attr.state = QpState::kErr;
      EXPECT_EQ(context.modify_qp(*qps.back(), attr, transport::kAttrState), 0);
    }
    std::array<Completion, 16> flushed;
    EXPECT_EQ(context.poll_cq(*cq, flushed), 3u);
    for (const auto& qp : qps) EXPECT_EQ(context.destroy_qp(*qp), 0);
    EXPECT_EQ(context.destroy_srq(*srq), 0);
    EXPECT_EQ(context.destroy_cq(*cq), 0);
  }
}

// Arms and queries, which no lock protects in the program.
void ask_all_the_while(Crew& crew) {
  while (!crew.stop) {
    breathe();
    crew.end.context().req_notify_cq(crew.end.send_cq(), false);
    EXPECT_EQ(crew.end.state(kShared), QpState::kRts);
    (void)crew.end.context().device().gids().refresh();
    (void)crew.end.counter(transport::Counter::kPacketsSent);
  }
}

void mix(End& end, uint64_t rounds) {
  Crew crew(end);
  {
    std::vector<std::jthread> others;
    others.emplace_back(register_all_the_while, std::ref(crew));
    others.emplace_back(create_all_the_while, std::ref(crew));
    others.emplace_back(ask_all_the_while, std::ref(crew));
    {
      std::vector<std::jthread> workers;
      for (uint32_t w = 1; w <= kWorkers; ++w)
        workers.emplace_back(work, std::ref(crew), w, rounds);
    }
    crew.wait_for(kShared, kWorkers * rounds);
    crew.stop = true;
  }
  EXPECT_FALSE(crew.failed);
  end.barrier();
  // What the other end's workers added here.
  uint64_t sum = 0;
  std::memcpy(&sum, end.bytes(0, 8).data(), 8);
  EXPECT_EQ(sum, kWorkers * rounds);
}

class Threads : public ::testing::TestWithParam<bool> {};

TEST_P(Threads, MixedLoad) {
  const uint64_t rounds = repeat(300, 60);
  const auto both = [rounds](End& end) { mix(end, rounds); };
  // All these threads on a machine that has more to do: an end may be away for long.
  run_pair({.one_process = GetParam(), .queue_pairs = kWorkers + 1, .channel = true, .timeout = 18},
           both, both);
}

INSTANTIATE_TEST_SUITE_P(Places, Threads, ::testing::Bool(), [](const auto& which) {
  return which.param ? "OneProcess" : "TwoProcesses";
});

}  // namespace
}  // namespace verbena::device::testing
