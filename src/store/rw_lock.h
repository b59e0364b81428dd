// SPDX-License-Identifier: Apache-2.0
// A reader-writer lock for std::shared_lock and std::unique_lock that prefers writers: a waiting
// writer gets it before later readers. With std::shared_mutex readers can starve writers.
#pragma once

#include <pthread.h>

#include "base/check.h"

namespace verbena::store {

class RwLock {
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

  void lock() { VERBENA_CHECK(pthread_rwlock_wrlock(&lock_) == 0); }
  void unlock() { VERBENA_CHECK(pthread_rwlock_unlock(&lock_) == 0); }
  void lock_shared() { VERBENA_CHECK(pthread_rwlock_rdlock(&lock_) == 0); }
  void unlock_shared() { VERBENA_CHECK(pthread_rwlock_unlock(&lock_) == 0); }

 private:
  pthread_rwlock_t lock_;
};

}  // namespace verbena::store
