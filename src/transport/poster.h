// SPDX-License-Identifier: Apache-2.0
// Who posts to a queue. As a rule that is a thread that has the endpoint (of the device: the
// engine's lock), which appends and sends at once. A thread that finds the endpoint taken need not
// wait for it: if it was the last to post to this queue, it may append all the same, and rings the
// queue pair's doorbell (doorbells.h), whereupon whoever has the endpoint sends.
//
// So a queue that one thread uses is appended to by this thread only, with or without the
// endpoint. A thread that posts to another's queue first makes it its own, for which it needs both
// the endpoint and the mutex. Who empties the queue, or takes it away, takes it from its owner
// first: a thread that is in it may have been overtaken by the completion of what it appended.
#pragma once

#include <cstdint>

#include <pthread.h>

#include "base/mutex.h"

namespace verbena::transport {

class Poster {
 public:
  // With the endpoint: the calling thread may append from now on.
  void claim() {
    const uint64_t self = this_thread();
    if (owner_ != self) [[unlikely]]
      change_owner(self);
  }
  // With the endpoint: nobody appends without it until somebody posts with it. Waits for one who
  // does so now: he has left the queue when this returns.
  void disown() { change_owner(0); }
  // Without it: true if the calling thread may append, until leave(). Clang's analysis does not
  // know a lock that is held from one call to another.
  [[nodiscard]] bool enter() VERBENA_NO_THREAD_SAFETY {
    mutex_.lock();
    if (owner_ == this_thread()) return true;
    mutex_.unlock();
    return false;
  }
  void leave() VERBENA_NO_THREAD_SAFETY { mutex_.unlock(); }

 private:
  [[nodiscard]] static uint64_t this_thread() { return static_cast<uint64_t>(::pthread_self()); }
  void change_owner(uint64_t owner) {
    const MutexLock lock(mutex_);
    owner_ = owner;
  }

  Mutex mutex_;
  // Read with the endpoint or the mutex, written with both. 0: nobody posted yet.
  uint64_t owner_ = 0;
};

}  // namespace verbena::transport
