// SPDX-License-Identifier: Apache-2.0
#include "device/engine_lock.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <optional>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sched.h>
#include <sys/wait.h>
#include <unistd.h>

namespace verbena::device {
namespace {

#if defined(__SANITIZE_THREAD__)
constexpr int kRounds = 3'000;
#else
constexpr int kRounds = 30'000;
#endif

// Counts what is posted and not answered yet.
struct Answerer final : DoorbellAnswerer {
  explicit Answerer(EngineLock& which) : lock(which) { lock.set_bell(*this); }
  void answer_doorbells() override {
    ++answers;
    posted = 0;
    const int steps = busy;
    for (int i = 0; i < steps; ++i) std::atomic_signal_fence(std::memory_order_seq_cst);
  }
  // As the helper does.
  void leave_doorbells() override { ++left; }
  void post() {
    ++posted;
    lock.ring();
  }

  EngineLock& lock;
  std::atomic<uint32_t> posted{0};
  std::atomic<uint32_t> answers{0};
  std::atomic<uint32_t> left{0};
  std::atomic<int> busy{0};
};

// Whatever the others do, who lets go of the lock last has answered.
TEST(EngineLock, AnswersEachBell) {
  EngineLock lock;
  Answerer answerer(lock);
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 2; ++i) {
      threads.emplace_back([&] {
        for (int round = 0; round < kRounds; ++round) answerer.post();
      });
    }
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds; ++round) {
        const EngineHeld held(lock);
      }
    });
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds / 10; ++round) {
        const EngineHeldFirst held(lock);
      }
    });
    threads.emplace_back([&] {
      for (int round = 0; round < kRounds / 100; ++round) {
        if (!lock.try_first_within(0)) continue;
        const EngineHeld held(lock, std::adopt_lock);
      }
    });
  }
  if (answerer.posted != 0) {
    EXPECT_NE(answerer.left, 0u) << "a bell was not answered";
    const EngineHeldFirst held(lock);  // the helper
  }
  EXPECT_EQ(answerer.posted, 0u);
}

// Who did not get the lock in time was relied on by who rang meanwhile.
TEST(EngineLock, AnswersABellThatRangWhileItWasWaitedForInVain) {
  EngineLock lock;
  Answerer answerer(lock);
  for (int round = 0; round < 20; ++round) {
    std::atomic<bool> held = false;
    std::jthread other([&] {
      const EngineHeld holds(lock);
      held = true;
      ::usleep(500);
    });
    while (!held) ::sched_yield();
    std::jthread waiter([&] {
      if (!lock.try_first_within(300 * kMicrosecond)) return;
      const EngineHeld holds(lock, std::adopt_lock);
    });
    for (int i = 0; i < 20; ++i) {
      answerer.post();
      ::usleep(30);
    }
    waiter.join();
    other.join();
    EXPECT_EQ(answerer.posted, 0u);
  }
}

// An answerer that takes as long as it is told to.
struct SlowAnswerer final : DoorbellAnswerer {
  void answer_doorbells() override {
    answering = true;
    while (!may_end) ::sched_yield();
  }
  void leave_doorbells() override {}
  std::atomic<bool> answering{false};
  std::atomic<bool> may_end{false};
};

// Whether close() returns only after may_end().
void expect_close_waits(EngineLock& lock, const std::function<void()>& may_end) {
  std::atomic<bool> closed = false;
  std::jthread closing([&] {
    lock.close();
    closed = true;
  });
  ::usleep(20'000);
  EXPECT_FALSE(closed);
  may_end();
}

TEST(EngineLock, IsNotClosedWhileAGuestIsAboutToRing) {
  const auto lock = EngineLock::take();
  Answerer answerer(*lock);
  std::optional<EngineLock::Guest> guest(*lock);
  expect_close_waits(*lock, [&] {
    answerer.post();
    guest.reset();
  });
  EXPECT_EQ(answerer.posted, 0u);
}

// Who let go of the lock, and heard the bell, has nothing else that says that it is there.
TEST(EngineLock, IsNotClosedWhileSomebodyAnswers) {
  const auto lock = EngineLock::take();
  SlowAnswerer answerer;
  lock->set_bell(answerer);
  std::atomic<bool> held = false;
  std::atomic<bool> rung = false;
  std::jthread holder([&] {
    const EngineHeld holds(*lock);
    held = true;
    while (!rung) ::sched_yield();
  });
  while (!held) ::sched_yield();
  lock->ring();
  rung = true;
  while (!answerer.answering) ::sched_yield();
  expect_close_waits(*lock, [&] { answerer.may_end = true; });
}

// Who let go of it may look at it when it is the next engine's.
TEST(EngineLock, IsNeverFreed) {
  auto lock = EngineLock::take();
  const EngineLock* const first = lock.get();
  lock->close();
  lock.reset();
  lock = EngineLock::take();
  EXPECT_EQ(lock.get(), first);
  const auto other = EngineLock::take();
  EXPECT_NE(other.get(), first);
}

#if !defined(__SANITIZE_THREAD__)  // which starts no threads in a child of several
// Of those who wait for it while the process forks the child has none, and what they held is free.
TEST(EngineLock, OfAForkedChildIsTheNextEnginesToo) {
  auto lock = EngineLock::take();
  lock->lock_first();
  std::thread waiter([&] { const EngineHeld held(*lock); });
  ::usleep(20'000);
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    lock->unlock_in_child();
    lock->close();
    lock.reset();
    lock = EngineLock::take();
    lock->lock_first();
    std::thread next([&] { const EngineHeld held(*lock); });
    ::usleep(20'000);
    lock->unlock();
    next.join();
    ::_exit(0);
  }
  lock->unlock();
  waiter.join();
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
}
#endif

// Threads that do nothing but post must not keep the helper, or who forks, waiting.
TEST(EngineLock, LetsGoFirstWhoWantsItWhileOthersRing) {
  EngineLock lock;
  Answerer answerer(lock);
  answerer.busy = 20'000;
  std::atomic<bool> stop = false;
  std::vector<uint32_t> meanwhile;  // of each round
  {
    std::vector<std::jthread> threads;
    for (int i = 0; i < 3; ++i) {
      threads.emplace_back([&] {
        while (!stop) answerer.post();
      });
    }
    for (int round = 0; round < 50; ++round) {
      ::usleep(1000);
      const uint32_t before = answerer.answers;
      const EngineHeldFirst held(lock);
      meanwhile.push_back(answerer.answers - before);
    }
    stop = true;
  }
  // It was thousands, each time. A few times this thread was off its core before it asked.
  std::ranges::sort(meanwhile);
  EXPECT_LE(meanwhile[meanwhile.size() * 3 / 4], 100u);
}

}  // namespace
}  // namespace verbena::device
