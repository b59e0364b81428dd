// SPDX-License-Identifier: Apache-2.0
// The engine's lock. It is held for microseconds, by threads of the program that call in and by the
// helper; who waits for it spins a little before it sleeps. The helper, and who forks, must not be
// kept waiting by a program that does nothing but call in: the others give way to them.
#pragma once

#include <atomic>
#include <cstdint>

#include "base/mutex.h"
#include "base/time.h"
#include "device/bounded_lock.h"

namespace verbena::device {

class VERBENA_CAPABILITY("mutex") EngineLock : private Mutex {
 public:
  // For those who call in.
  void lock() VERBENA_ACQUIRE();
  // For whoever comes again soon: does not wait.
  [[nodiscard]] bool try_in_passing() VERBENA_TRY_ACQUIRE(true) {
    return wanted_.load(std::memory_order_relaxed) == 0 && try_lock();
  }
  // For the helper, which spins: others call in all the time.
  [[nodiscard]] bool try_now() VERBENA_TRY_ACQUIRE(true) { return try_lock(); }
  // For whoever goes first.
  void lock_first() VERBENA_ACQUIRE() {
    ++wanted_;
    Mutex::lock();
    --wanted_;
  }
  // The same, but it does not wait for ever.
  [[nodiscard]] bool try_first_within(Duration bound) VERBENA_TRY_ACQUIRE(true) {
    ++wanted_;
    const bool taken = lock_within(*this, bound);
    --wanted_;
    return taken;
  }

  using Mutex::assert_held;
  using Mutex::unlock;
  // In a forked child, whose one thread has the lock: nobody else wants it.
  void unlock_in_child() VERBENA_RELEASE() {
    wanted_.store(0);
    unlock();
  }

 private:
  // Spins.
  [[nodiscard]] bool comes_soon() VERBENA_TRY_ACQUIRE(true);

  // Held by the one of those who call in that waits for the lock; the others wait for this. (A
  // forked child has one thread, which never waits.)
  Mutex queue_;
  std::atomic<uint32_t> wanted_{0};  // by those who go first
};

// Holds it until its end; with std::adopt_lock, one that was tried for.
using EngineHeld = ScopedLock<EngineLock>;

// The same for whoever goes first.
class VERBENA_SCOPED_CAPABILITY EngineHeldFirst {
 public:
  explicit EngineHeldFirst(EngineLock& lock) VERBENA_ACQUIRE(lock) : lock_(lock) {
    lock_.lock_first();
  }
  EngineHeldFirst(const EngineHeldFirst&) = delete;
  EngineHeldFirst& operator=(const EngineHeldFirst&) = delete;
  ~EngineHeldFirst() VERBENA_RELEASE() { lock_.unlock(); }

 private:
  EngineLock& lock_;
};

}  // namespace verbena::device
