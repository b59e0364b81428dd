// SPDX-License-Identifier: Apache-2.0
// A descriptor that counts events, to sleep on: an eventfd as a semaphore. Programs see it, may
// make it non-blocking, and poll it; reading is ours.
#pragma once

#include <cstdint>

#include "base/mutex.h"
#include "base/unique_fd.h"

namespace verbena::device {

class EventCount {
 public:
  EventCount();
  [[nodiscard]] bool valid() const { return fd_.valid(); }
  [[nodiscard]] int fd() const { return fd_.get(); }
  // Whether take() would wait.
  [[nodiscard]] bool blocking() const;

  void add(uint64_t count);
  // Takes one if there is one; waits for nothing, though the descriptor may be a blocking one. With
  // the owner's mutex held, the same each time.
  [[nodiscard]] bool try_take();
  // Takes one, and waits for it unless the descriptor is non-blocking. 0, or an errno: EAGAIN,
  // EINTR. Not with the owner's mutex held.
  [[nodiscard]] int take(Mutex& owners) VERBENA_EXCLUDES(owners);
  // In a forked child, where the descriptor is still the parent's: nothing is added or taken any
  // more; take() gives ENODEV.
  void abandon() { abandoned_ = true; }

 private:
  UniqueFd fd_;
  // The kernel reads it without waiting when asked to (preadv2, RWF_NOWAIT): for an eventfd since
  // 5.7, and not in every sandbox. Where it does not, all who read take turns under the mutex.
  bool nowait_ = false;
  bool abandoned_ = false;
};

}  // namespace verbena::device
