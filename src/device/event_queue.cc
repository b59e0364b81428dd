// SPDX-License-Identifier: Apache-2.0
#include "device/event_queue.h"

#include <algorithm>

namespace verbena::device {

void EventQueue::raise(const AsyncEvent& event) {
  {
    const MutexLock lock(mutex_);
    const bool full = events_.size() >= kMaxEvents;
    if (full) events_.pop_front();
    events_.push_back(event);
    if (full) return;  // it is counted already
  }
  count_.add(1);
}

int EventQueue::wait(AsyncEvent& event) {
  for (;;) {
    if (const int error = count_.take(mutex_); error != 0) return error;
    const MutexLock lock(mutex_);
    if (events_.empty()) continue;
    event = events_.front();
    events_.pop_front();
    if (event.element != nullptr) ++given_[event.element];
    return 0;
  }
}

bool EventQueue::has(const void* element) {
  const MutexLock lock(mutex_);
  return std::ranges::any_of(events_,
                             [element](const AsyncEvent& e) { return e.element == element; });
}

uint32_t EventQueue::forget(const void* element) {
  if (element == nullptr) return 0;  // those are the port's
  const MutexLock lock(mutex_);
  const size_t dropped = std::erase_if(
      events_, [element](const AsyncEvent& event) { return event.element == element; });
  // Uncounted as well, or the descriptor would stay readable without an event. A waiter may have
  // been quicker.
  for (size_t i = 0; i < dropped; ++i) (void)count_.try_take();
  const auto given = given_.extract(element);
  return given ? given.mapped() : 0;
}

}  // namespace verbena::device
