// SPDX-License-Identifier: Apache-2.0
// Sleeping in epoll to the nanosecond (epoll_pwait2). Where the kernel has no such call (before
// 5.11) or a sandbox forbids it, to the millisecond, and never shorter than asked: a sleep that
// fails at once would make a busy loop of its caller.
//
// Owned by one thread.
#pragma once

#include <span>

#include <sys/epoll.h>

#include "base/time.h"

namespace verbena::device {

class EpollSleep {
 public:
  // What is ready, perhaps nothing. timeout: kNever waits for ever.
  [[nodiscard]] std::span<const epoll_event> wait(int epoll, std::span<epoll_event> room,
                                                  Duration timeout);

 private:
  bool nanoseconds_ = true;
};

}  // namespace verbena::device
