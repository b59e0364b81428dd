// SPDX-License-Identifier: Apache-2.0
// A reader-writer lock that prefers writers: a waiting writer gets it before later readers. With
// std::shared_mutex readers can starve writers. A thread takes it once: a second time, as a reader
// behind a waiting writer, it would wait for itself.
#pragma once

#include <pthread.h>

#include "base/check.h"
#include "base/mutex.h"

namespace verbena {

class VERBENA_CAPABILITY("rw_lock") RwLock {
 public:
  RwLock() {
    pthread_rwlockattr_t attributes;
    VERBENA_CHECK(pthread_rwlockattr_init(&attributes) == 0);
    VERBENA_CHECK(pthread_rwlockattr_setkind_np(&attributes,
                                                PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP) == 0);
    VERBENA_CHECK(pthread_rwlock_init(&lock_, &attributes) == 0);
    pthread_rwlockattr_destroy(&attributes);
  }
  RwLock(const RwLock&) = delete;
  RwLock& operator=(const RwLock&) = delete;
  ~RwLock() { pthread_rwlock_destroy(&lock_); }

  void lock() VERBENA_ACQUIRE() { VERBENA_CHECK(pthread_rwlock_wrlock(&lock_) == 0); }
  void unlock() VERBENA_RELEASE() { VERBENA_CHECK(pthread_rwlock_unlock(&lock_) == 0); }
  void lock_shared() VERBENA_ACQUIRE_SHARED() { VERBENA_CHECK(pthread_rwlock_rdlock(&lock_) == 0); }
  void unlock_shared() VERBENA_RELEASE_SHARED() {
    VERBENA_CHECK(pthread_rwlock_unlock(&lock_) == 0);
  }
  void assert_held() const VERBENA_ASSERT_HELD() {}
  void assert_shared() const VERBENA_ASSERT_SHARED() {}

 private:
  pthread_rwlock_t lock_;
};
using WriteLock = ScopedLock<RwLock>;

class VERBENA_SCOPED_CAPABILITY ReadLock {
 public:
  explicit ReadLock(RwLock& lock) VERBENA_ACQUIRE_SHARED(lock) : lock_(lock) {
    lock_.lock_shared();
  }
  ReadLock(const ReadLock&) = delete;
  ReadLock& operator=(const ReadLock&) = delete;
  ~ReadLock() VERBENA_RELEASE() { lock_.unlock_shared(); }

 private:
  RwLock& lock_;
};

}  // namespace verbena
