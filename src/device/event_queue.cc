// SPDX-License-Identifier: Apache-2.0
#include "device/event_queue.h"

#include <cerrno>

#include <sys/eventfd.h>
#include <unistd.h>

namespace verbena::device {

EventQueue::EventQueue() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE)) {}

void EventQueue::raise(const AsyncEvent& event) {
  {
    const std::lock_guard lock(mutex_);
    if (events_.size() >= kMaxEvents) events_.pop_front();
    events_.push_back(event);
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
    return 0;
  }
}

void EventQueue::forget(const void* element) {
  if (element == nullptr) return;  // those are the port's
  const std::lock_guard lock(mutex_);
  std::erase_if(events_, [element](const AsyncEvent& event) { return event.element == element; });
}

}  // namespace verbena::device
