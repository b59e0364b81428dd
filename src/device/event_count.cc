// SPDX-License-Identifier: Apache-2.0
#include "device/event_count.h"

#include <cerrno>

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/signals.h"

namespace verbena::device {
namespace {

// One taken, or the reason why not.
[[nodiscard]] int read_now(int fd) {
  uint64_t one = 0;
  iovec into{&one, sizeof one};
  return ::preadv2(fd, &into, 1, -1, RWF_NOWAIT) == sizeof one ? 0 : errno;
}

}  // namespace

EventCount::EventCount() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE)) {
  nowait_ = fd_.valid() && read_now(fd_.get()) == EAGAIN;
}

bool EventCount::blocking() const {
  return !abandoned_ && (::fcntl(fd_.get(), F_GETFL) & O_NONBLOCK) == 0;
}

void EventCount::add(uint64_t count) {
  if (abandoned_) return;
  (void)!::write(fd_.get(), &count, sizeof count);
}

bool EventCount::try_take() {
  if (abandoned_) return false;
  if (nowait_) return read_now(fd_.get()) == 0;
  // Nobody else reads: it is there still when it is read.
  pollfd ready{fd_.get(), POLLIN, 0};
  uint64_t one = 0;
  return ::poll(&ready, 1, 0) == 1 && ::read(fd_.get(), &one, sizeof one) == sizeof one;
}

int EventCount::take(Mutex& owners) {
  if (abandoned_) return ENODEV;
  if (nowait_) {
    uint64_t one = 0;
    return ::read(fd_.get(), &one, sizeof one) == sizeof one ? 0 : errno;
  }
  for (;;) {
    {
      const MutexLock lock(owners);
      if (try_take()) return 0;
    }
    if (!blocking()) return EAGAIN;
    pollfd ready{fd_.get(), POLLIN, 0};
    if (::poll(&ready, 1, -1) < 0 && !(errno == EINTR && signals_restart())) return errno;
  }
}

}  // namespace verbena::device
