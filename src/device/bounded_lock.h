// SPDX-License-Identifier: Apache-2.0
// Waits for a mutex, but not for ever. For exit(): other threads run on and come out of where they
// are, if only they get a core; but the thread that exits may have been interrupted by a signal
// while it held the mutex itself.
#pragma once

#include <mutex>

#include <time.h>

#include "base/time.h"

namespace verbena::device {

// Check owns_lock().
[[nodiscard]] inline std::unique_lock<std::mutex> lock_within(std::mutex& mutex, Duration bound) {
  constexpr Duration kPause = 100 * kMicrosecond;
  constexpr timespec kWait{0, kPause};
  std::unique_lock lock(mutex, std::try_to_lock);
  // A pause takes longer than it says: the bound is reached late rather than early.
  for (Duration waited = 0; !lock.owns_lock() && waited < bound; waited += kPause) {
    (void)::nanosleep(&kWait, nullptr);
    (void)lock.try_lock();
  }
  return lock;
}

}  // namespace verbena::device
