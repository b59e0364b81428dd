// SPDX-License-Identifier: Apache-2.0
// A mutex for sections of less than a microsecond: who finds it taken spins for some microseconds
// before it sleeps, for a sleep costs more than the wait. (On one core, or if the one that has it
// was put off its core, in vain.)
#pragma once

#include "base/mutex.h"
#include "base/relax.h"

namespace verbena {

class VERBENA_CAPABILITY("mutex") ShortMutex {
 public:
  void lock() VERBENA_ACQUIRE() {
    constexpr int kLooks = 64;
    for (int i = 0; i < kLooks; ++i) {
      if (mutex_.try_lock()) return;
      for (int pause = 0; pause <= i / 8; ++pause) cpu_relax();
    }
    mutex_.lock();
  }
  [[nodiscard]] bool try_lock() VERBENA_TRY_ACQUIRE(true) { return mutex_.try_lock(); }
  void unlock() VERBENA_RELEASE() { mutex_.unlock(); }
  void assert_held() const VERBENA_ASSERT_HELD() {}

 private:
  Mutex mutex_;
};
using ShortLock = ScopedLock<ShortMutex>;

}  // namespace verbena
