// SPDX-License-Identifier: Apache-2.0
// The engine's lock. It is held for microseconds, by threads of the program that call in and by the
// helper; who waits for it spins a little before it sleeps. The helper, and who forks, must not be
// kept waiting by a program that does nothing but call in: the others give way to them.
//
// A thread that only wants something done about what it posted need not wait: it rings, and who has
// the lock answers when he lets go of it.
//
// What one thread posted may complete before its call returns, and another may see that and take
// down all there is. So who has let go of the lock, and looks at the bell, finds the lock still
// there (take()), and what it answers with as well if there is anything to answer (Guest).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>

#include "base/full_fence.h"
#include "base/mutex.h"
#include "base/time.h"

namespace verbena::device {

// Who answers a bell.
class DoorbellAnswerer {
 public:
  virtual ~DoorbellAnswerer() = default;
  // With the lock held.
  virtual void answer_doorbells() = 0;
  // Without it: whoever comes next is to do it, and soon.
  virtual void leave_doorbells() = 0;
};

class VERBENA_CAPABILITY("mutex") EngineLock : private Mutex {
 public:
  // Of what must not go yet, though who is inside does not have the lock.
  class Guest {
   public:
    // Sequentially consistent: pairs with close(), and with Engine::before_fork().
    explicit Guest(EngineLock& lock) : lock_(lock) { ++lock_.guests_; }
    Guest(const Guest&) = delete;
    Guest& operator=(const Guest&) = delete;
    ~Guest() { --lock_.guests_; }

   private:
    EngineLock& lock_;
  };
  struct GiveBack {
    void operator()(EngineLock* lock) const;
  };
  // One that is never freed, but used again by another engine.
  [[nodiscard]] static std::unique_ptr<EngineLock, GiveBack> take();

  // Before anybody rings.
  void set_bell(DoorbellAnswerer& bell) { bell_ = &bell; }
  // For those who call in.
  void lock() VERBENA_ACQUIRE();
  // For whoever comes again soon: does not wait.
  [[nodiscard]] bool try_in_passing() VERBENA_TRY_ACQUIRE(true) {
    return wanted_.load(std::memory_order_relaxed) == 0 && try_lock();
  }
  // After try_in_passing() failed, by a thread that does nothing but try again. Who has the lock
  // may be off the core that this thread spins on.
  void pass_by();
  // For the helper, which spins: others call in all the time.
  [[nodiscard]] bool try_now() VERBENA_TRY_ACQUIRE(true) { return try_lock(); }
  // For whoever goes first.
  void lock_first() VERBENA_ACQUIRE() {
    ++wanted_;
    Mutex::lock();
    --wanted_;
  }
  // The same, but it does not wait for ever.
  [[nodiscard]] bool try_first_within(Duration bound) VERBENA_TRY_ACQUIRE(true);

  using Mutex::assert_held;
  void unlock() VERBENA_RELEASE() {
    Mutex::unlock();
    // From here on the engine may be gone.
    unlock_fence();
    if (rung_.load(std::memory_order_relaxed)) [[unlikely]]
      answer_as_guest();
  }
  // In a forked child, whose one thread has the lock: nobody else wants it. The child's next engine
  // may use it again.
  void unlock_in_child() VERBENA_RELEASE() {
    wanted_.store(0);
    std::construct_at(&queue_);  // a thread that is not here may have it
    guests_.store(0);
    rung_.store(false);
    Mutex::unlock();
  }

  // A doorbell was rung, by a guest: answered by this thread if nobody has the lock, by who has it
  // otherwise. Does not wait.
  void ring();
  // Until there was none. They wait for nobody, but one may have ended in the middle
  // (pthread_cancel): not for ever.
  void await_guests() const;
  // Who answers goes away. Nobody calls in any more; those who did may not have returned.
  void close();

 private:
  // Spins.
  [[nodiscard]] bool comes_soon() VERBENA_TRY_ACQUIRE(true);
  // While there is a bell to answer and nobody else has the lock.
  void answer();
  void answer_as_guest();
  // Between unlock() and the look at the bell; pairs with ring(). A mutex of glibc's on x86-64 is
  // unlocked by an exchange, which is a full fence, and another one costs as much again.
  static void unlock_fence() {
#if defined(__x86_64__) && defined(__GLIBC__)
    std::atomic_signal_fence(std::memory_order_seq_cst);
#else
    full_fence();
#endif
  }

  // Held by the one of those who call in that waits for the lock; the others wait for this.
  Mutex queue_;
  std::atomic<uint32_t> wanted_{0};  // by those who go first
  std::atomic<bool> rung_{false};    // a doorbell is not answered yet
  std::atomic<uint32_t> guests_{0};
  std::atomic<uint32_t> passed_by_{0};
  DoorbellAnswerer* bell_ = nullptr;
  EngineLock* next_kept_ = nullptr;  // engine_lock.cc
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
