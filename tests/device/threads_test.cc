// SPDX-License-Identifier: Apache-2.0
// Any call from any thread, as verbs promise: threads that share completion queues and queue pairs,
// threads with their own, others that register memory and make and destroy objects all the while.
// For the sanitizers first of all; what was done is counted and compared as well.
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

#include "budget.h"
#include "pair.h"
#include "pattern.h"
#include "transport/posting.h"

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

// Posts to a queue pair of its own as often as it is told to.
class PostingThread {
 public:
  PostingThread(End& end, uint32_t qp, SendOp op = SendOp::kWrite)
      : thread_([this, &end, qp, op] { run(end, qp, op); }) {}

  // Begins to post another; wait() until it has.
  void begin() { ++wanted_; }
  [[nodiscard]] bool wait() const { return wait_for(wanted_); }
  // Until so many are posted.
  bool wait_for(uint32_t count) const {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (posted_ < count && std::chrono::steady_clock::now() < deadline) breathe();
    return posted_ >= count;
  }
  ~PostingThread() { stop_ = true; }

 private:
  void run(End& end, uint32_t qp, SendOp op) {
    while (!stop_) {
      if (posted_ == wanted_) {
        breathe();
        continue;
      }
      const Post what{.op = op, .local = kArea * qp, .bytes = 8, .remote = kArea * qp, .wr_id = qp};
      EXPECT_EQ(end.try_post(qp, what), 0);
      ++posted_;
    }
  }

  std::atomic<uint32_t> wanted_{0};
  std::atomic<uint32_t> posted_{0};
  std::atomic<bool> stop_{false};
  std::jthread thread_;
};

// A thread whose queue pair nobody else uses does not wait for one that has the engine's lock.
void post_beside_the_lock(End& end) {
  Crew crew(end);
  PostingThread thread(end, 1);
  thread.begin();  // it is its queue pair from now on
  ASSERT_TRUE(thread.wait());
  crew.wait_for(1, 1);
  {
    const Engine::Quiet quiet(end.context().device().engine());
    thread.begin();
    EXPECT_TRUE(thread.wait()) << "it waits for the lock";
  }
  // It was sent when the lock was let go of.
  crew.wait_for(1, 2);
  end.barrier();
}

TEST(ThreadsWithTheirOwnQueues, PostWhileAnotherHasTheLock) {
  run_pair({.one_process = false, .queue_pairs = 2, .channel = true}, post_beside_the_lock,
           [](End& end) { end.barrier(); });
}

// A place in the send queue that is free once who has the lock lets go of it is waited for.
void post_more_than_fits(End& end) {
  constexpr uint32_t kFits = 4;
  PostingThread thread(end, 0, SendOp::kSend);
  thread.begin();
  ASSERT_TRUE(thread.wait());
  {
    const Engine::Quiet quiet(end.engine());
    for (uint32_t i = 0; i < 2 * kFits; ++i) thread.begin();
    thread.wait_for(1 + kFits);
  }
  EXPECT_TRUE(thread.wait());
  end.barrier();
}

TEST(ThreadsWithTheirOwnQueues, WaitForTheLockWhereTheQueueIsFull) {
  run_pair({.one_process = true,
            .type = transport::QpType::kUd,
            .depth = 4,
            .cq_entries = 64,
            .signal_all = false},
           post_more_than_fits, [](End& end) { end.barrier(); });
}

// What a thread posted without the lock comes before what it does next with it, although nobody
// who has the lock has looked at it yet.
void change_after_posting(End& end) {
  end.barrier();  // its receive is there
  {
    const Engine::Quiet quiet(end.engine());
    const std::array<memory::Sge, 1> list{end.sge(0, 8)};
    transport::QueuePair& qp = *end.qp(0).queue;
    ASSERT_TRUE(transport::posting::append(qp, {.wr_id = 1, .list = list}, 4096));
    quiet.endpoint().doorbells().ring(qp);
  }
  end.to_error(0);
  end.barrier();
}

TEST(ThreadsWithTheirOwnQueues, SendBeforeTheyChangeTheQueuePair) {
  run_pair({.one_process = true}, change_after_posting, [](End& end) {
    end.post_recv(0, 0, 8);
    end.barrier();
    (void)end.received();
    end.barrier();
  });
}

// A queue pair of its own to post receives to, and a thread that does.
class ReceivesOfOneThread {
 public:
  explicit ReceivesOfOneThread(End& end) : end_(end), cq_(*end.context().create_cq(64, nullptr)) {}
  ~ReceivesOfOneThread() { EXPECT_EQ(end_.context().destroy_cq(*cq_), 0); }
  ReceivesOfOneThread(const ReceivesOfOneThread&) = delete;
  ReceivesOfOneThread& operator=(const ReceivesOfOneThread&) = delete;

  [[nodiscard]] std::unique_ptr<Qp> make() {
    QpRequest request;
    request.send_cq = request.recv_cq = cq_.get();
    request.send = {4, 1, 0};
    request.max_recv_entries = 32;
    request.max_recv_sge = 1;
    return *end_.context().create_qp(end_.pd(), request);
  }
  void change(Qp& qp, QpState to) {
    transport::QpAttr attr;
    attr.port = 1;
    attr.state = to;
    const uint32_t mask = to == QpState::kInit ? transport::kAttrState | transport::kAttrPkeyIndex |
                                                     transport::kAttrPort | transport::kAttrAccess
                                               : uint32_t{transport::kAttrState};
    EXPECT_EQ(end_.context().modify_qp(qp, attr, mask), 0);
  }
  [[nodiscard]] uint32_t poll() {
    std::array<Completion, 8> some;
    return end_.context().poll_cq(*cq_, some);
  }

 private:
  End& end_;
  std::unique_ptr<CompletionQueue> cq_;
};

// A queue pair that was reset has nothing left of what another thread posted meanwhile.
void reset_while_another_posts(End& end, uint64_t rounds) {
  ReceivesOfOneThread receives(end);
  const auto qp = receives.make();
  std::atomic<bool> stop{false};
  {
    std::jthread poster([&] {
      while (!stop) {
        const int error = end.context().post_recv(*qp, {7, {}});
        EXPECT_TRUE(error == 0 || error == EINVAL || error == ENOMEM);
      }
    });
    for (uint64_t i = 0; i < rounds; ++i) {
      receives.change(*qp, QpState::kInit);
      if (i % 8 == 0) breathe();  // the poster has its turn, and the queue pair is its own
      receives.change(*qp, QpState::kReset);
      const Engine::Quiet quiet(end.engine());
      EXPECT_FALSE(quiet.endpoint().has_posted(qp->qpn)) << "round " << i;
    }
    stop = true;
  }
  EXPECT_EQ(end.context().destroy_qp(*qp), 0);
}

TEST(ThreadsWithTheirOwnQueues, PostNothingIntoAQueuePairThatIsReset) {
  const uint64_t rounds = repeat(10'000, 400);
  run_pair(
      {.one_process = true},
      [rounds](End& end) {
        reset_while_another_posts(end, rounds);
        end.barrier();
      },
      [](End& end) { end.barrier(); });
}

// Who polls a completion may destroy the queue pair, although the call that posted has not returned
// in the other thread. (Of receives posted to one in error each completes at once.)
void destroy_what_another_posted_to(End& end, uint64_t rounds) {
  ReceivesOfOneThread receives(end);
  std::atomic<Qp*> current{nullptr};
  std::atomic<bool> stop{false};
  constexpr uint32_t kEach = 3;
  {
    std::jthread poster([&] {
      while (!stop) {
        Qp* const qp = current.exchange(nullptr);
        if (qp == nullptr) ::sched_yield();
        for (uint32_t i = 0; qp != nullptr && i < kEach; ++i) {
          EXPECT_EQ(end.context().post_recv(*qp, {7, {}}), 0);
        }
      }
    });
    // It has the lock now and then.
    std::jthread other([&] {
      for (uint32_t i = 0; !stop; ++i) {
        if (i % 64 == 0) breathe();
        (void)end.state(0);
      }
    });
    for (uint64_t i = 0; i < rounds; ++i) {
      const auto qp = receives.make();
      receives.change(*qp, QpState::kErr);
      current = qp.get();
      uint32_t flushed = 0;
      const auto deadline = std::chrono::steady_clock::now() + kPatience;
      while (flushed < kEach && std::chrono::steady_clock::now() < deadline) {
        flushed += receives.poll();
        ::sched_yield();
      }
      EXPECT_EQ(flushed, kEach) << "a receive was not flushed";
      EXPECT_EQ(end.context().destroy_qp(*qp), 0);
    }
    stop = true;
  }
}

TEST(ThreadsWithTheirOwnQueues, MayLoseTheQueuePairOnceItsWorkIsComplete) {
  const uint64_t rounds = repeat(3000, 300);
  run_pair(
      {.one_process = true},
      [rounds](End& end) {
        destroy_what_another_posted_to(end, rounds);
        end.barrier();
      },
      [](End& end) { end.barrier(); });
}

// Late posts to what was destroyed are refused, as long as the objects are kept. (Here for ever, in
// the C interface for a while.)
class DestroyedWhilePosted {
 public:
  explicit DestroyedWhilePosted(End& end) : end_(end), receives_(end) {}

  void run(uint64_t rounds) {
    {
      std::vector<std::jthread> posters;
      for (int i = 0; i < 2; ++i) posters.emplace_back([this] { post(); });
      for (uint64_t i = 0; i < rounds; ++i) replace(i);
      stop_ = true;
    }
    destroy_current();
  }

 private:
  // In the error state each completes at once.
  static constexpr uint32_t kEach = 8;

  void post() {
    Context& context = end_.context();
    const auto is_right = [](int error) {
      return error == 0 || error == EINVAL || error == ENOMEM;
    };
    const Qp* last = nullptr;
    while (!stop_) {
      Qp* const qp = qp_;
      Srq* const srq = srq_;
      if (qp == nullptr || qp == last) {
        ::sched_yield();
        continue;
      }
      for (uint32_t i = 0; i < kEach; ++i) {
        EXPECT_TRUE(is_right(context.post_send(*qp, {.wr_id = 7})));
        EXPECT_TRUE(is_right(context.post_recv(*qp, {7, {}})));
        EXPECT_TRUE(is_right(context.post_srq_recv(*srq, {7, {}})));
      }
      last = qp;
    }
  }
  void replace(uint64_t round) {
    const Destroyed gone = destroy_current();
    Context& context = end_.context();
    auto qp = receives_.make();
    receives_.change(*qp, QpState::kErr);
    auto srq = *context.create_srq(end_.pd(), {.entries = 1024, .max_sge = 1});
    if (gone.qp != nullptr) {
      // Not those that were made in their place.
      EXPECT_EQ(context.post_recv(*gone.qp, {7, {}}), EINVAL);
      EXPECT_EQ(context.post_send(*gone.qp, {.wr_id = 7}), EINVAL);
      EXPECT_EQ(context.post_srq_recv(*gone.srq, {7, {}}), EINVAL);
      EXPECT_EQ(context.arm_srq(*gone.srq, 1), EINVAL);
    }
    srq_ = srq.get();
    qp_ = qp.get();
    qps_.push_back(std::move(qp));
    srqs_.push_back(std::move(srq));
    if (round % 4 == 0) breathe();
    while (receives_.poll() != 0) ::sched_yield();
  }
  struct Destroyed {
    Qp* qp = nullptr;
    Srq* srq = nullptr;
  };
  Destroyed destroy_current() {
    if (qps_.empty()) return {};
    const Destroyed current{qps_.back().get(), srqs_.back().get()};
    EXPECT_EQ(end_.context().destroy_qp(*current.qp), 0);
    EXPECT_EQ(end_.context().destroy_srq(*current.srq), 0);
    return current;
  }

  End& end_;
  ReceivesOfOneThread receives_;
  std::vector<std::unique_ptr<Qp>> qps_;
  std::vector<std::unique_ptr<Srq>> srqs_;
  std::atomic<Srq*> srq_{nullptr};  // before the other
  std::atomic<Qp*> qp_{nullptr};
  std::atomic<bool> stop_{false};
};

TEST(ThreadsWithTheirOwnQueues, PostToWhatAnotherDestroysAndAreRefused) {
  const uint64_t rounds = repeat(3000, 300);
  run_pair(
      {.one_process = true},
      [rounds](End& end) {
        DestroyedWhilePosted(end).run(rounds);
        end.barrier();
      },
      [](End& end) { end.barrier(); });
}

// Threads that fill a shared receive queue together, and take turns with a queue pair each, while
// the process forks: each message has its receive, and each comes once.
void fill_together(End& end, uint64_t rounds) {
  std::vector<std::jthread> threads;
  for (uint32_t w = 0; w < kWorkers; ++w) {
    threads.emplace_back([&end, rounds] {
      for (uint64_t i = 0; i < rounds; ++i) {
        while (end.context().post_srq_recv(end.srq(), {7, {}}) != 0) ::sched_yield();
      }
    });
  }
  end.good(end.recv_cq(), kWorkers * rounds);
  threads.clear();
  end.barrier();
}

void send_and_fork(End& end, uint64_t rounds) {
  Crew crew(end);
  std::array<std::atomic<uint64_t>, kWorkers> turn{};
  {
    std::vector<std::jthread> threads;
    for (uint32_t w = 0; w < kWorkers; ++w) {
      threads.emplace_back([&, w] {
        const auto deadline = std::chrono::steady_clock::now() + kPatience;
        for (uint64_t i = 0; i < rounds && !crew.failed; ++i) {
          // The queue pair of another every few rounds: each is used by one thread at a time.
          const uint32_t qp = static_cast<uint32_t>((w + i / 16) % kWorkers);
          while (turn.at(qp) < i && !crew.failed) ::sched_yield();
          const Post what{.local = 0, .bytes = 0, .wr_id = qp};
          while (end.try_post(qp, what) != 0 && std::chrono::steady_clock::now() < deadline) {
            crew.reap();
          }
          ++turn.at(qp);
        }
      });
    }
    for (int i = 0; i < 8; ++i) {
      breathe();
      const pid_t child = ::fork();
      if (child == 0) ::_exit(0);
      int status = 1;
      EXPECT_EQ(::waitpid(child, &status, 0), child);
      EXPECT_EQ(status, 0);
    }
  }
  for (uint32_t qp = 0; qp < kWorkers; ++qp) crew.wait_for(qp, rounds);
  end.barrier();
}

TEST(ThreadsThatShareReceives, LoseNothingWhileTheProcessForks) {
  const uint64_t rounds = repeat(3000, 300);
  run_pair(
      {.one_process = false,
       .queue_pairs = kWorkers,
       .depth = 32,
       .cq_entries = static_cast<uint32_t>(kWorkers * rounds),
       .shared_receives = true,
       .timeout = 18},
      [rounds](End& end) { send_and_fork(end, rounds); },
      [rounds](End& end) { fill_together(end, rounds); });
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
