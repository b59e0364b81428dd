// SPDX-License-Identifier: Apache-2.0
#include "device/event_queue.h"

#include <cerrno>

#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

namespace verbena::device {

EventQueue::EventQueue() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE)) {}

void EventQueue::raise(const AsyncEvent& event) {
  {
    const std::lock_guard lock(mutex_);
    const bool full = events_.size() >= kMaxEvents;
    if (full) events_.pop_front();
    events_.push_back(event);
    if (full) return;  // it is counted already
  }
  const uint64_t one = 1;
  (void)!::write(fd_.get(), &one, sizeof one);
}

int EventQueue::wait(AsyncEvent& event) {
  for (;;) {
    uint64_t one = 0;
    if (::read(fd_.get(), &one, sizeof one) != sizeof one) return errno;
    const std::lock_guard lock(mutex_);
    if (events_.empty()) continue;
    event = events_.front();
    events_.pop_front();
    if (event.element != nullptr) ++given_[event.element];
    return 0;
  }
}

uint32_t EventQueue::forget(const void* element) {
  if (element == nullptr) return 0;  // those are the port's
  const std::lock_guard lock(mutex_);
  const size_t dropped = std::erase_if(
      events_, [element](const AsyncEvent& event) { return event.element == element; });
  // Uncounted as well, or the descriptor would stay readable without an event. Not by a plain read:
  // a waiter may have been quicker, and the descriptor may be a blocking one.
  for (size_t i = 0; i < dropped; ++i) {
    uint64_t one = 0;
    iovec into{&one, sizeof one};
    (void)!::preadv2(fd_.get(), &into, 1, -1, RWF_NOWAIT);
  }
  const auto given = given_.extract(element);
  return given ? given.mapped() : 0;
}

}  // namespace verbena::device
