// SPDX-License-Identifier: Apache-2.0
// Asynchronous events of one context: what happened to a queue pair, a completion queue, a shared
// receive queue or the port, with a descriptor to sleep on.
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>

#include "base/mutex.h"
#include "device/event_count.h"
#include "transport/types.h"

namespace verbena::device {

// Beyond transport::Event, numbered as ibv_event_type.
enum class EventType : uint8_t {
  kCqError = 0,
  kQpFatal = 1,
  kQpRequestError = 2,
  kQpAccessError = 3,
  kCommunicationEstablished = 4,
  kSqDrained = 5,
  kDeviceFatal = 8,
  kPortActive = 9,
  kPortError = 10,
  kSrqLimitReached = 15,
  kQpLastWqeReached = 16,
  kGidChange = 18,
};

struct AsyncEvent {
  EventType type = EventType::kCqError;
  void* element = nullptr;  // the cookie of the object it is about; nullptr: the port
};

class EventQueue {
 public:
  [[nodiscard]] bool valid() const { return count_.valid(); }
  [[nodiscard]] int fd() const { return count_.fd(); }
  // Bounded: beyond kMaxEvents the oldest give way.
  void raise(const AsyncEvent& event);
  [[nodiscard]] int wait(AsyncEvent& event);
  // Whether one about it waits to be read.
  [[nodiscard]] bool has(const void* element);
  // Drops events about an object that is destroyed. Gives how many about it were waited for before,
  // whose acknowledgement the object's end has to await.
  [[nodiscard]] uint32_t forget(const void* element);

  // Around fork: no other thread is at its events.
  void before_fork() VERBENA_ACQUIRE(mutex_) { mutex_.lock(); }
  void after_fork() VERBENA_RELEASE(mutex_) { mutex_.unlock(); }
  // In the child: the events are the parent's.
  void abandon_in_child() { count_.abandon(); }

  static constexpr size_t kMaxEvents = 4096;

 private:
  EventCount count_;
  Mutex mutex_;
  std::deque<AsyncEvent> events_ VERBENA_GUARDED_BY(mutex_);
  std::unordered_map<const void*, uint32_t> given_ VERBENA_GUARDED_BY(mutex_);  // by element
};

}  // namespace verbena::device
