// SPDX-License-Identifier: Apache-2.0
#include "rspreload/epoll_instance.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include "base/next_function.h"

namespace verbena::rspreload {
namespace {

// Its address is in the bell's events.
char bell_mark;

}  // namespace

Instance::~Instance() {
  if (bell_ >= 0) (void)NEXT(close)(bell_);
}

bool Instance::is_bell(const epoll_event& event) { return event.data.ptr == &bell_mark; }

bool Instance::make_bell() {
  if (bell_ >= 0) return true;
  bell_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  epoll_event asked{.events = EPOLLIN, .data = {.ptr = &bell_mark}};
  if (bell_ < 0 || NEXT(epoll_ctl)(fd_, EPOLL_CTL_ADD, bell_, &asked) == 0) return bell_ >= 0;
  (void)NEXT(close)(bell_);
  bell_ = -1;
  return false;
}

void Instance::ring() {
  if (waiters_ == 0) return;
  ++changes_;
  outdated_ = waiters_;
  if (rung_ || !make_bell()) return;
  const uint64_t one = 1;
  rung_ = NEXT(write)(bell_, &one, sizeof one) == sizeof one;
}

void Instance::leave(uint32_t entered) {
  --waiters_;
  if (entered == changes_ || --outdated_ != 0 || !rung_) return;
  uint64_t count = 0;
  (void)!NEXT(read)(bell_, &count, sizeof count);
  rung_ = false;
}

}  // namespace verbena::rspreload
