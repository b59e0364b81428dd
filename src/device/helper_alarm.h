// SPDX-License-Identifier: Apache-2.0
// When the helper looks again, and who receives instead of it: a thread that sleeps on a completion
// channel (progress_wait.cc) watches the sockets itself, and the helper, which then does not, is
// told when it leaves. The thread leaves without the engine's lock, so that the two agree here:
//
//   the thread   "I am gone", then reads the alarm; is it too late, it wakes the helper
//   the helper   sets the alarm, then reads whether the thread is there; is it not, it looks soon
//
// Whatever the order, one of the two sees the other.
#pragma once

#include <algorithm>
#include <atomic>

#include "base/time.h"

namespace verbena::device {

// Atomic: std::atomic; a test has one that lets the other side act between any two steps.
template <template <typename> typename Atomic>
class BasicHelperAlarm {
 public:
  // So long a thread that left is expected back before the helper takes over.
  static constexpr Duration kExpectedBack = kMillisecond;

  // --- a thread that receives
  // False: another one does.
  [[nodiscard]] bool enter() { return !inside_.exchange(true); }
  // True: the helper is to be woken.
  [[nodiscard]] bool leave(Time now) {
    left_.store(now, std::memory_order_relaxed);
    inside_.store(false, std::memory_order_seq_cst);
    return at_.load(std::memory_order_seq_cst) > now + kExpectedBack;
  }
  // It is not expected back.
  void leave_for_good() { left_.store(0, std::memory_order_relaxed); }

  // --- anybody
  // It receives, or has just left.
  [[nodiscard]] bool waited(Time now) const {
    return inside_.load(std::memory_order_relaxed) ||
           now - left_.load(std::memory_order_relaxed) < kExpectedBack;
  }
  // The helper is to look by then. True: it is to be woken for that. With the engine's lock held.
  [[nodiscard]] bool move_up(Time deadline) {
    if (deadline >= at_.load(std::memory_order_relaxed)) return false;
    at_.store(deadline, std::memory_order_relaxed);
    return true;
  }

  // --- the helper, with the engine's lock held
  // It is about to sleep until then; gives until when it may. `by_waiter`: the sockets are left to
  // a thread that receives; should that be gone, the helper looks again at `soon`.
  [[nodiscard]] Time set(Time until, bool by_waiter, Time soon) {
    at_.store(until, std::memory_order_seq_cst);
    if (!by_waiter || until <= soon || inside_.load(std::memory_order_seq_cst)) return until;
    at_.store(soon, std::memory_order_relaxed);
    return soon;
  }

 private:
  Atomic<Time> at_{0};  // when the helper wakes by itself; kNever: only when told
  Atomic<bool> inside_{false};
  Atomic<Time> left_{0};
};

using HelperAlarm = BasicHelperAlarm<std::atomic>;

}  // namespace verbena::device
