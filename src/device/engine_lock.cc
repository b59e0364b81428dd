// SPDX-License-Identifier: Apache-2.0
#include "device/engine_lock.h"

#include <sched.h>
#include <time.h>

#include "base/full_fence.h"
#include "base/relax.h"
#include "device/bounded_lock.h"

namespace verbena::device {
namespace {

// As a rule a process has one engine at a time: the one that no engine has, and, kept for ever,
// what more there were.
constinit std::atomic<EngineLock*> spare{nullptr};
constinit std::atomic<EngineLock*> kept{nullptr};

}  // namespace

std::unique_ptr<EngineLock, EngineLock::GiveBack> EngineLock::take() {
  // Both acquire and release: with the next exchange.
  EngineLock* const used = spare.exchange(nullptr, std::memory_order_acq_rel);
  std::unique_ptr<EngineLock, GiveBack> one(used != nullptr ? used : new EngineLock);
  one->passed_by_.store(0, std::memory_order_relaxed);
  return one;
}

void EngineLock::GiveBack::operator()(EngineLock* lock) const {
  EngineLock* const other = spare.exchange(lock, std::memory_order_acq_rel);
  if (other == nullptr) return;
  other->next_kept_ = kept.load(std::memory_order_relaxed);
  while (!kept.compare_exchange_weak(other->next_kept_, other, std::memory_order_release,
                                     std::memory_order_relaxed)) {}
}

void EngineLock::await_guests() const {
  // One that is off its core gets it sooner if we sleep.
  constexpr timespec kPause{0, 50 * kMicrosecond};
  constexpr int kMost = 100 + kSecond / kPause.tv_nsec;
  for (int i = 0; guests_ != 0 && i < kMost; ++i) {
    if (i < 100) {
      ::sched_yield();
    } else {
      (void)::nanosleep(&kPause, nullptr);
    }
  }
}

void EngineLock::close() {
  // Those who ring.
  await_guests();
  // Who has the lock, and may be answering.
  Mutex::lock();
  rung_ = false;
  Mutex::unlock();
  // Who has unlocked it and saw the bell before: he is a guest by now, or will see that it is
  // silent. (Both sequentially consistent, crosswise.)
  await_guests();
}

bool EngineLock::comes_soon() {
  constexpr int kSpins = 100;
  for (int i = 0; i < kSpins; ++i) {
    if (try_lock()) return true;
    cpu_relax();
  }
  return false;
}

void EngineLock::lock() {
  if (wanted_.load(std::memory_order_relaxed) == 0 && comes_soon()) return;
  // One at a time: a thousand threads that spin and yield would keep the one that has the lock off
  // its core.
  const MutexLock alone(queue_);
  // A program that does nothing but call in would keep the lock from the helper for ever.
  constexpr int kGiveWay = 1000;
  for (int i = 0; i < kGiveWay && wanted_.load(std::memory_order_relaxed) != 0; ++i) {
    ::sched_yield();
  }
  if (!comes_soon()) Mutex::lock();
}

void EngineLock::pass_by() {
  // Some microseconds, longer than the lock is held as a rule.
  constexpr uint32_t kYieldEvery = 64;
  if (passed_by_.fetch_add(1, std::memory_order_relaxed) % kYieldEvery == kYieldEvery - 1) {
    ::sched_yield();
  }
}

bool EngineLock::try_first_within(Duration bound) {
  ++wanted_;
  const bool taken = lock_within(*this, bound);
  --wanted_;
  if (taken) return true;
  // Who rang meanwhile relied on us.
  full_fence();
  answer();
  return false;
}

void EngineLock::ring() {
  // An exchange, so that who hears of one that rang hears of all that rang before.
  rung_.exchange(true, std::memory_order_acq_rel);
  // Either we get the lock, or who has it sees the bell when he lets go.
  full_fence();
  answer();
}

void EngineLock::answer_as_guest() {
  const Guest guest(*this);
  if (rung_) answer();
}

void EngineLock::answer() {
  constexpr int kRounds = 8;
  for (int round = 0; rung_.load(std::memory_order_relaxed); ++round) {
    // Who goes first gets it, and answers when he lets go. All that try for it, again and again,
    // would keep it from him.
    if (wanted_.load(std::memory_order_relaxed) != 0) return;
    // Others ring all the time: this thread has work of its own.
    if (round == kRounds) return bell_->leave_doorbells();
    if (!try_lock()) return;  // who has it answers
    // Acquires what was posted.
    if (rung_.exchange(false, std::memory_order_acq_rel)) bell_->answer_doorbells();
    Mutex::unlock();
    full_fence();
  }
}

}  // namespace verbena::device
