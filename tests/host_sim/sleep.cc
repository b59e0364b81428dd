// SPDX-License-Identifier: Apache-2.0
// In place of src/device/epoll_sleep.cc: simulated time.
#include <algorithm>

#include <sys/syscall.h>
#include <unistd.h>

#include "device/epoll_sleep.h"
#include "progress_sim/scheduler.h"

namespace verbena::device {

std::span<const epoll_event> EpollSleep::wait(int epoll, std::span<epoll_event> room,
                                              Duration timeout) {
  auto& scheduler = *progress_sim::Scheduler::current();
  const Time until = timeout == kNever ? kNever : scheduler.now() + timeout;
  (void)scheduler.sleep({&epoll, 1}, until);
  const auto got =
      ::syscall(SYS_epoll_pwait, epoll, room.data(), static_cast<int>(room.size()), 0, nullptr, 0);
  return room.first(static_cast<size_t>(std::max(got, 0L)));
}

}  // namespace verbena::device
