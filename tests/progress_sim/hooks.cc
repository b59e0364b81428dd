// SPDX-License-Identifier: Apache-2.0
// Where the code under test meets the scheduler. It is the device's own, compiled with the
// compiler's instrumentation for ThreadSanitizer, and what that calls is here instead: each access
// to an atomic. Mutexes and the system calls it makes are taken from the C library in the same way.
// Outside of simulated threads everything is as usual.
#include <cerrno>
#include <cstdint>
#include <cstring>

#include <pthread.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "progress_sim/scheduler.h"

namespace {

using verbena::progress_sim::Scheduler;

constexpr int kSequential = __ATOMIC_SEQ_CST;

template <typename T>
[[nodiscard]] T load(const volatile T* at) {
  const void* const plain = const_cast<const T*>(at);
  Scheduler* const scheduler = Scheduler::current();
  if (scheduler == nullptr) return *at;
  scheduler->point();
  return static_cast<T>(scheduler->load(plain, sizeof(T)));
}

template <typename T>
void store(volatile T* at, T value, int order) {
  Scheduler* const scheduler = Scheduler::current();
  if (scheduler != nullptr) {
    scheduler->point();
    if (order != kSequential) {
      return scheduler->store(
          const_cast<T*>(at), value, sizeof(T),
          order == __ATOMIC_RELEASE ? Scheduler::Order::kRelease : Scheduler::Order::kRelaxed);
    }
    scheduler->drain();
  }
  *at = value;
}

// Before a read-modify-write, which goes straight to memory.
void alone() {
  if (Scheduler* const scheduler = Scheduler::current(); scheduler != nullptr) {
    scheduler->point();
    scheduler->drain();
  }
}

template <typename T, typename Change>
T modify(volatile T* at, Change change) {
  alone();
  const T before = *at;
  *at = static_cast<T>(change(before));
  return before;
}

template <typename T>
[[nodiscard]] bool exchange_if(volatile T* at, T* expected, T value) {
  alone();
  const T before = *at;
  if (before == *expected) {
    *at = value;
    return true;
  }
  *expected = before;
  return false;
}

// As glibc has it in the mutex.
[[nodiscard]] bool is_robust(const pthread_mutex_t* mutex) {
  constexpr int kRobust = 16;
  return (mutex->__data.__kind & kRobust) != 0;
}

}  // namespace

// NOLINTBEGIN(bugprone-macro-parentheses, bugprone-reserved-identifier,
// readability-identifier-naming)
#define VERBENA_ATOMIC_HOOKS(bits, T)                                                           \
  T __tsan_atomic##bits##_load(const volatile T* at, int) { return load(at); }                  \
  void __tsan_atomic##bits##_store(volatile T* at, T value, int order) {                        \
    store(at, value, order);                                                                    \
  }                                                                                             \
  T __tsan_atomic##bits##_exchange(volatile T* at, T value, int) {                              \
    return modify(at, [value](T) { return value; });                                            \
  }                                                                                             \
  T __tsan_atomic##bits##_fetch_add(volatile T* at, T value, int) {                             \
    return modify(at, [value](T before) { return before + value; });                            \
  }                                                                                             \
  T __tsan_atomic##bits##_fetch_sub(volatile T* at, T value, int) {                             \
    return modify(at, [value](T before) { return before - value; });                            \
  }                                                                                             \
  T __tsan_atomic##bits##_fetch_and(volatile T* at, T value, int) {                             \
    return modify(at, [value](T before) { return before & value; });                            \
  }                                                                                             \
  T __tsan_atomic##bits##_fetch_or(volatile T* at, T value, int) {                              \
    return modify(at, [value](T before) { return before | value; });                            \
  }                                                                                             \
  int __tsan_atomic##bits##_compare_exchange_strong(volatile T* at, T* expected, T value, int,  \
                                                    int) {                                      \
    return exchange_if(at, expected, value) ? 1 : 0;                                            \
  }                                                                                             \
  int __tsan_atomic##bits##_compare_exchange_weak(volatile T* at, T* expected, T value, int,    \
                                                  int) {                                        \
    return exchange_if(at, expected, value) ? 1 : 0;                                            \
  }                                                                                             \
  T __tsan_atomic##bits##_compare_exchange_val(volatile T* at, T expected, T value, int, int) { \
    (void)exchange_if(at, &expected, value);                                                    \
    return expected;                                                                            \
  }

// Of accesses that are not atomic nothing is wanted.
#define VERBENA_PLAIN_HOOKS(bytes)             \
  void __tsan_read##bytes(void*) {}            \
  void __tsan_write##bytes(void*) {}           \
  void __tsan_unaligned_read##bytes(void*) {}  \
  void __tsan_unaligned_write##bytes(void*) {} \
  void __tsan_volatile_read##bytes(void*) {}   \
  void __tsan_volatile_write##bytes(void*) {}  \
  void __tsan_read_write##bytes(void*) {}

extern "C" {

VERBENA_ATOMIC_HOOKS(8, uint8_t)
VERBENA_ATOMIC_HOOKS(16, uint16_t)
VERBENA_ATOMIC_HOOKS(32, uint32_t)
VERBENA_ATOMIC_HOOKS(64, uint64_t)
VERBENA_PLAIN_HOOKS(1)
VERBENA_PLAIN_HOOKS(2)
VERBENA_PLAIN_HOOKS(4)
VERBENA_PLAIN_HOOKS(8)
VERBENA_PLAIN_HOOKS(16)
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_read_range(void*, size_t) {}
void __tsan_write_range(void*, size_t) {}
void __tsan_vptr_read(void**) {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_atomic_signal_fence(int) {}
void __tsan_atomic_thread_fence(int order) {
  if (order == kSequential) alone();
}
void* __tsan_memcpy(void* to, const void* from, size_t bytes) {
  return std::memcpy(to, from, bytes);
}
void* __tsan_memmove(void* to, const void* from, size_t bytes) {
  return std::memmove(to, from, bytes);
}
void* __tsan_memset(void* to, int value, size_t bytes) { return std::memset(to, value, bytes); }

// There is one real thread.
pthread_t pthread_self() {
  const Scheduler* const scheduler = Scheduler::current();
  return scheduler == nullptr ? 1 : reinterpret_cast<pthread_t>(scheduler->thread());
}

int pthread_mutex_lock(pthread_mutex_t* mutex) {
  if (Scheduler* const scheduler = Scheduler::current(); scheduler != nullptr) {
    scheduler->lock(mutex);
  }
  return 0;
}

int pthread_mutex_trylock(pthread_mutex_t* mutex) {
  Scheduler* const scheduler = Scheduler::current();
  if (scheduler != nullptr && is_robust(mutex)) {
    return scheduler->try_lock_robust(mutex->__data.__owner);
  }
  return scheduler == nullptr || scheduler->try_lock(mutex) ? 0 : EBUSY;
}

int pthread_mutex_unlock(pthread_mutex_t* mutex) {
  Scheduler* const scheduler = Scheduler::current();
  if (scheduler == nullptr) return 0;
  if (is_robust(mutex)) {
    scheduler->unlock_robust(mutex->__data.__owner);
  } else {
    scheduler->unlock(mutex);
  }
  return 0;
}

int pthread_mutex_consistent(pthread_mutex_t*) { return 0; }

int sched_yield() {
  alone();
  return 0;
}

ssize_t write(int fd, const void* from, size_t bytes) {
  alone();
  const ssize_t written = ::syscall(SYS_write, fd, from, bytes);
  if (Scheduler* const scheduler = Scheduler::current(); scheduler != nullptr) {
    scheduler->on_write();
  }
  return written;
}

ssize_t read(int fd, void* to, size_t bytes) {
  alone();
  return ::syscall(SYS_read, fd, to, bytes);
}

ssize_t preadv2(int fd, const iovec* to, int count, off_t offset, int flags) {
  alone();
  const auto low = static_cast<unsigned long>(offset);
  return ::syscall(SYS_preadv2, fd, to, count, low, low >> 32, flags);
}

// What waits in the core for memory that goes is written before.
int munmap(void* at, size_t bytes) {
  alone();
  return static_cast<int>(::syscall(SYS_munmap, at, bytes));
}

int clock_gettime(clockid_t which, timespec* time) {
  Scheduler* const scheduler = Scheduler::current();
  if (scheduler == nullptr) return static_cast<int>(::syscall(SYS_clock_gettime, which, time));
  time->tv_sec = scheduler->now() / verbena::kSecond;
  time->tv_nsec = scheduler->now() % verbena::kSecond;
  return 0;
}

}  // extern "C"
// NOLINTEND(bugprone-macro-parentheses, bugprone-reserved-identifier,
// readability-identifier-naming)
