// SPDX-License-Identifier: Apache-2.0
// What programs hold pointers to. A program that uses an object after it destroyed it is wrong, but
// it is somebody else's process: it gets EINVAL, not a crash.
//
// So the memory of a handle never becomes anything but a handle of the same type, and not soon. Its
// public part stays as it was (inline functions of verbs.h read the context from it), and its tag
// says that it is dead. Another thread may be in the middle of a call when it dies: where that is
// likely, what is inside lingers for a while.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <new>
#include <thread>

#include "base/mutex.h"

namespace verbena::verbs {

// Memory for objects of one type: given back, it waits behind others before it is given out again.
class HandlePool {
 public:
  explicit HandlePool(size_t bytes) : bytes_(bytes) {}

  [[nodiscard]] void* take() {
    const MutexLock lock(mutex_);
    if (free_.size() > kRest) {
      void* const memory = free_.front();
      free_.pop_front();
      return memory;
    }
    void* const memory = std::calloc(1, bytes_);
    if (memory == nullptr) throw std::bad_alloc();
    return memory;
  }
  // Without memory for the list it is never used again.
  void give_back(void* memory) noexcept {
    const MutexLock lock(mutex_);
    (void)append(free_, memory);
  }
  // A dead object whose inside is to go later: gives the one whose time has come, if any.
  [[nodiscard]] void* linger(void* dead, size_t most) noexcept {
    const MutexLock lock(mutex_);
    if (!append(lingering_, dead)) return nullptr;
    if (lingering_.size() <= most) return nullptr;
    void* const oldest = lingering_.front();
    lingering_.pop_front();
    return oldest;
  }

 private:
  // So many are not used again, so that a stale pointer most likely finds the dead.
  static constexpr size_t kRest = 64;

  [[nodiscard]] bool append(std::deque<void*>& list, void* memory) noexcept
      VERBENA_REQUIRES(mutex_) {
    try {
      list.push_back(memory);
    } catch (const std::bad_alloc&) {
      return false;
    }
    return true;
  }

  const size_t bytes_;
  Mutex mutex_;
  std::deque<void*> free_ VERBENA_GUARDED_BY(mutex_);
  std::deque<void*> lingering_ VERBENA_GUARDED_BY(mutex_);
};

// kLinger: how many dead ones keep their inside.
template <typename T, size_t kLinger = 0>
class Handle {
 public:
  static void* operator new(size_t) { return pool().take(); }
  static void operator delete(void* memory) noexcept { pool().give_back(memory); }

  // Also while somebody asks to destroy it: that may be refused, and is nothing to the others.
  [[nodiscard]] bool is_alive() const {
    return (tag_.load(std::memory_order_acquire) | kClaim) == (kAlive | kClaim);
  }
  // It may be about to be destroyed.
  [[nodiscard]] bool is_dead() const { return tag_.load(std::memory_order_acquire) == kDead; }
  // Of those who ask to destroy it at once, one is heard; the others wait for what comes of it.
  [[nodiscard]] bool claim() {
    for (uint32_t seen = kAlive;
         !tag_.compare_exchange_weak(seen, kAlive | kClaim, std::memory_order_acq_rel);
         seen = kAlive) {
      if (seen == (kAlive | kClaim)) std::this_thread::yield();
      if (seen == kDoomed || seen == kDead) return false;
    }
    return true;
  }
  // It could not be destroyed.
  void disclaim() { tag_.store(kAlive, std::memory_order_release); }
  // It will be, though not at once: no more calls.
  void doom() { tag_.store(kDoomed, std::memory_order_release); }
  // The end of one that was claimed.
  void retire() {
    tag_.store(kDead, std::memory_order_release);
    T* over = static_cast<T*>(this);
    if constexpr (kLinger != 0) over = static_cast<T*>(pool().linger(over, kLinger));
    delete over;
  }

 private:
  friend T;
  Handle() = default;
  ~Handle() { tag_.store(kDead, std::memory_order_release); }

  static constexpr uint32_t kAlive = 0x5665'7262;
  static constexpr uint32_t kClaim = 1;  // in addition to kAlive
  static constexpr uint32_t kDoomed = 1;
  static constexpr uint32_t kDead = 0;

  // Outlives every program's last call.
  static HandlePool& pool() {
    static HandlePool& only = *new HandlePool(sizeof(T));
    return only;
  }

  std::atomic<uint32_t> tag_{kAlive};
};

}  // namespace verbena::verbs
