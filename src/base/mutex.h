// SPDX-License-Identifier: Apache-2.0
// Locks that the compiler checks. With Clang each mutex is a capability, and what it guards, and
// the functions that need it, say so: `./dev lint` refuses an access without it (-Wthread-safety).
// With GCC the annotations are nothing. docs/threads.md lists the mutexes.
//
//   Mutex mutex_;
//   Condition changed_;
//   size_t jobs_ VERBENA_GUARDED_BY(mutex_) = 0;
//   void take() VERBENA_REQUIRES(mutex_);
//
//   const MutexLock lock(mutex_);
//   while (jobs_ == 0) changed_.wait(mutex_);
//   take();
//
// A lambda is a function of its own to the compiler: it says VERBENA_REQUIRES(mutex_) after its
// parameters. One that our own templates call, which know nothing of the mutex, begins with
// mutex_.assert_held().
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define VERBENA_THREAD_SAFETY(...) __attribute__((__VA_ARGS__))
#else
#define VERBENA_THREAD_SAFETY(...)
#endif

// Of types.
#define VERBENA_CAPABILITY(name) VERBENA_THREAD_SAFETY(capability(name))
#define VERBENA_SCOPED_CAPABILITY VERBENA_THREAD_SAFETY(scoped_lockable)
// Of data: read with the mutex held, shared or not; written with it held, not shared. Of a pointer,
// the second one: what it points to.
#define VERBENA_GUARDED_BY(mutex) VERBENA_THREAD_SAFETY(guarded_by(mutex))
#define VERBENA_PT_GUARDED_BY(mutex) VERBENA_THREAD_SAFETY(pt_guarded_by(mutex))
// Of functions: the caller has it; the caller does not have it.
#define VERBENA_REQUIRES(...) VERBENA_THREAD_SAFETY(requires_capability(__VA_ARGS__))
#define VERBENA_REQUIRES_SHARED(...) VERBENA_THREAD_SAFETY(requires_shared_capability(__VA_ARGS__))
#define VERBENA_EXCLUDES(...) VERBENA_THREAD_SAFETY(locks_excluded(__VA_ARGS__))
// Of functions: it is taken, it is given back.
#define VERBENA_ACQUIRE(...) VERBENA_THREAD_SAFETY(acquire_capability(__VA_ARGS__))
#define VERBENA_ACQUIRE_SHARED(...) VERBENA_THREAD_SAFETY(acquire_shared_capability(__VA_ARGS__))
#define VERBENA_TRY_ACQUIRE(...) VERBENA_THREAD_SAFETY(try_acquire_capability(__VA_ARGS__))
#define VERBENA_RELEASE(...) VERBENA_THREAD_SAFETY(release_capability(__VA_ARGS__))
#define VERBENA_RELEASE_SHARED(...) VERBENA_THREAD_SAFETY(release_shared_capability(__VA_ARGS__))
// Of functions: from here on it is taken as held. Nothing is checked when the program runs.
#define VERBENA_ASSERT_HELD(...) VERBENA_THREAD_SAFETY(assert_capability(__VA_ARGS__))
#define VERBENA_ASSERT_SHARED(...) VERBENA_THREAD_SAFETY(assert_shared_capability(__VA_ARGS__))
// Of functions: gives a reference to this one.
#define VERBENA_RETURN_CAPABILITY(mutex) VERBENA_THREAD_SAFETY(lock_returned(mutex))
// Of functions that the analysis cannot follow; each says why.
#define VERBENA_NO_THREAD_SAFETY VERBENA_THREAD_SAFETY(no_thread_safety_analysis)

namespace verbena {

class VERBENA_CAPABILITY("mutex") Mutex {
 public:
  void lock() VERBENA_ACQUIRE() { mutex_.lock(); }
  void unlock() VERBENA_RELEASE() { mutex_.unlock(); }
  [[nodiscard]] bool try_lock() VERBENA_TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  void assert_held() const VERBENA_ASSERT_HELD() {}

 private:
  friend class Condition;
  std::mutex mutex_;
};

// Holds a mutex of either kind until its end, except between unlock() and lock().
template <typename AnyMutex>
class VERBENA_SCOPED_CAPABILITY ScopedLock {
 public:
  explicit ScopedLock(AnyMutex& mutex) VERBENA_ACQUIRE(mutex) : mutex_(mutex) { mutex_.lock(); }
  // One that the caller has, from try_lock().
  ScopedLock(AnyMutex& mutex, std::adopt_lock_t) VERBENA_REQUIRES(mutex) : mutex_(mutex) {}
  ScopedLock(const ScopedLock&) = delete;
  ScopedLock& operator=(const ScopedLock&) = delete;
  ~ScopedLock() VERBENA_RELEASE() {
    if (held_) mutex_.unlock();
  }
  void unlock() VERBENA_RELEASE() {
    held_ = false;
    mutex_.unlock();
  }
  void lock() VERBENA_ACQUIRE() {
    mutex_.lock();
    held_ = true;
  }

 private:
  AnyMutex& mutex_;
  bool held_ = true;
};
using MutexLock = ScopedLock<Mutex>;

// The other way round, for a function whose caller holds the mutex: not held until its end.
template <typename AnyMutex>
class VERBENA_SCOPED_CAPABILITY ScopedUnlock {
 public:
  explicit ScopedUnlock(AnyMutex& mutex) VERBENA_RELEASE(mutex) : mutex_(mutex) { mutex_.unlock(); }
  ScopedUnlock(const ScopedUnlock&) = delete;
  ScopedUnlock& operator=(const ScopedUnlock&) = delete;
  ~ScopedUnlock() VERBENA_RELEASE() { mutex_.lock(); }

 private:
  AnyMutex& mutex_;
};
using MutexUnlock = ScopedUnlock<Mutex>;

// What threads wait for that hold a Mutex. Without a predicate, for that would be a lambda: the
// caller loops, since a wait may end for no reason.
class Condition {
 public:
  void notify_one() noexcept { condition_.notify_one(); }
  void notify_all() noexcept { condition_.notify_all(); }

  void wait(Mutex& mutex) VERBENA_REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    condition_.wait(lock);
    (void)lock.release();
  }
  // False: it is that late.
  template <typename Clock, typename Span>
  bool wait_until(Mutex& mutex, std::chrono::time_point<Clock, Span> until)
      VERBENA_REQUIRES(mutex) {
    std::unique_lock lock(mutex.mutex_, std::adopt_lock);
    const bool early = condition_.wait_until(lock, until) == std::cv_status::no_timeout;
    (void)lock.release();
    return early;
  }

 private:
  std::condition_variable condition_;
};

}  // namespace verbena
