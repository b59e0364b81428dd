// SPDX-License-Identifier: Apache-2.0
// Waits for a mutex, but not for ever. For exit(): other threads run on and come out of where they
// are, if only they get a core; but the thread that exits may have been interrupted by a signal
// while it held the mutex itself.
#pragma once

#include <time.h>

#include "base/mutex.h"
#include "base/time.h"

namespace verbena::device {

// True: it is taken.
[[nodiscard]] inline bool lock_within(Mutex& mutex, Duration bound)
    VERBENA_TRY_ACQUIRE(true, mutex) {
  constexpr Duration kPause = 100 * kMicrosecond;
  constexpr timespec kWait{0, kPause};
  bool taken = mutex.try_lock();
  // A pause takes longer than it says: the bound is reached late rather than early.
  for (Duration waited = 0; !taken && waited < bound; waited += kPause) {
    (void)::nanosleep(&kWait, nullptr);
    taken = mutex.try_lock();
  }
  return taken;
}

}  // namespace verbena::device
