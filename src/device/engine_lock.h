// SPDX-License-Identifier: Apache-2.0
// The engine's lock. It is held for microseconds, by threads of the program that call in and by the
// helper; who waits for it spins a little before it sleeps. The helper, and who forks, must not be
// kept waiting by a program that does nothing but call in: the others give way to them.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>

#include "base/time.h"
#include "device/bounded_lock.h"

namespace verbena::device {

class EngineLock {
 public:
  // For those who call in.
  void lock();
  // For whoever comes again soon: does not wait.
  [[nodiscard]] std::unique_lock<std::mutex> try_in_passing() {
    if (wanted_.load(std::memory_order_relaxed) != 0) return {};
    return std::unique_lock(mutex_, std::try_to_lock);
  }
  // For the helper, which spins: others call in all the time.
  [[nodiscard]] std::unique_lock<std::mutex> try_now() {
    return std::unique_lock(mutex_, std::try_to_lock);
  }
  void unlock() { mutex_.unlock(); }

  // For whoever goes first.
  void lock_first() {
    ++wanted_;
    mutex_.lock();
    --wanted_;
  }
  // The same, until the end of what it gives.
  [[nodiscard]] std::unique_lock<std::mutex> hold_first() {
    lock_first();
    return std::unique_lock(mutex_, std::adopt_lock);
  }
  // The same, but it does not wait for ever. Check owns_lock().
  [[nodiscard]] std::unique_lock<std::mutex> hold_first_within(Duration bound) {
    ++wanted_;
    std::unique_lock held = lock_within(mutex_, bound);
    --wanted_;
    return held;
  }

  // In a forked child, whose one thread has the lock: nobody else wants it.
  void unlock_in_child() {
    wanted_.store(0);
    mutex_.unlock();
  }

 private:
  std::mutex mutex_;
  // Held by the one of those who call in that waits for the lock; the others wait for this. (A
  // forked child has one thread, which never waits.)
  std::mutex queue_;
  std::atomic<uint32_t> wanted_{0};  // by those who go first
};

}  // namespace verbena::device
