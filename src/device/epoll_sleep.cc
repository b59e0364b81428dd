// SPDX-License-Identifier: Apache-2.0
#include "device/epoll_sleep.h"

#include <algorithm>
#include <cerrno>
#include <climits>

#include <sys/syscall.h>
#include <unistd.h>

namespace verbena::device {
namespace {

[[nodiscard]] int milliseconds(Duration timeout) {
  if (timeout == kNever) return -1;
  const Duration up = timeout / kMillisecond + (timeout % kMillisecond != 0 ? 1 : 0);
  return static_cast<int>(std::min<Duration>(up, INT_MAX));
}

}  // namespace

std::span<const epoll_event> EpollSleep::wait(int epoll, std::span<epoll_event> room,
                                              Duration timeout) {
  const auto most = static_cast<int>(room.size());
  int n = -1;
  if (nanoseconds_) {
    const timespec time{timeout / kSecond, timeout % kSecond};
    // glibc's wrapper is younger than the kernels we run on.
    n = static_cast<int>(::syscall(__NR_epoll_pwait2, epoll, room.data(), most,
                                   timeout == kNever ? nullptr : &time, nullptr, 0));
    nanoseconds_ = n >= 0 || (errno != ENOSYS && errno != EPERM);
  }
  if (!nanoseconds_) n = ::epoll_wait(epoll, room.data(), most, milliseconds(timeout));
  return room.first(static_cast<size_t>(std::max(n, 0)));
}

}  // namespace verbena::device
