// SPDX-License-Identifier: Apache-2.0
// A completion channel: a descriptor to sleep on, and the queue of completion queues that have an
// event.
#pragma once

#include <cstdint>
#include <deque>

#include "base/mutex.h"
#include "device/event_count.h"

namespace verbena::device {

class CompletionQueue;

class CompletionChannel {
 public:
  [[nodiscard]] bool valid() const { return count_.valid(); }
  // Readable while an event waits. Callers may set O_NONBLOCK on it.
  [[nodiscard]] int fd() const { return count_.fd(); }

  void notify(CompletionQueue& cq);
  // Waits (unless the descriptor is non-blocking) for an event. 0, or an errno: EAGAIN, EINTR, in a
  // forked child ENODEV.
  [[nodiscard]] int wait(CompletionQueue*& cq);
  // An event that is there already, without waiting.
  [[nodiscard]] bool take(CompletionQueue*& cq);
  // Whether wait() would wait.
  [[nodiscard]] bool blocking() const { return count_.blocking(); }
  // A thread that waits on this channel is at work itself and looks for its event right after:
  // between the two, notify() spares it the descriptor. end_direct() gives it the event, if any.
  void begin_direct();
  [[nodiscard]] bool end_direct(CompletionQueue*& cq);
  // Drops the events of a queue that is destroyed; from now on none of it is given.
  void forget(const CompletionQueue& cq);

  // Around fork: no other thread is at its events.
  void before_fork() VERBENA_ACQUIRE(mutex_) { mutex_.lock(); }
  void after_fork() VERBENA_RELEASE(mutex_) { mutex_.unlock(); }
  // In the child: the events are the parent's.
  void abandon_in_child() { count_.abandon(); }

  uint32_t users = 0;  // completion queues attached

 private:
  // The oldest event; there is one.
  [[nodiscard]] CompletionQueue* pop() VERBENA_REQUIRES(mutex_);

  EventCount count_;  // of events, but for unsignaled_
  Mutex mutex_;
  std::deque<CompletionQueue*> events_ VERBENA_GUARDED_BY(mutex_);
  bool direct_ VERBENA_GUARDED_BY(mutex_) = false;
  // Events that the descriptor does not count, newest.
  uint32_t unsignaled_ VERBENA_GUARDED_BY(mutex_) = 0;
};

}  // namespace verbena::device
