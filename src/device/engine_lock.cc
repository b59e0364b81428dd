// SPDX-License-Identifier: Apache-2.0
#include "device/engine_lock.h"

#include <sched.h>

#include "base/full_fence.h"
#include "base/relax.h"
#include "device/bounded_lock.h"

namespace verbena::device {

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
