// SPDX-License-Identifier: Apache-2.0
#include "device/engine_lock.h"

#include <sched.h>

#include "base/relax.h"

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

}  // namespace verbena::device
