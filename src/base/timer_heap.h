// SPDX-License-Identifier: Apache-2.0
// Deadlines of many objects in a binary heap. A deadline that moves later is not moved in the heap:
// the entry fires early, finds the later deadline and goes back, so that the common case (an
// acknowledgement pushes a timeout out) costs one store. Owned by one thread at a time; the objects
// carry a TimerHook.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/time.h"

namespace verbena {

struct TimerHook {
  static constexpr size_t kNotQueued = ~size_t{0};
  Time deadline = kNever;  // what the owner asked for last
  Time queued_at = kNever;
  size_t position = kNotQueued;
};

// T has a member `TimerHook timer`.
template <typename T>
class TimerHeap {
 public:
  // kNever cancels.
  void set(T& object, Time deadline) {
    TimerHook& hook = object.timer;
    hook.deadline = deadline;
    if (deadline == kNever) return;  // fires into nothing later, at most once
    if (hook.position == TimerHook::kNotQueued) {
      hook.queued_at = deadline;
      hook.position = heap_.size();
      heap_.push_back(&object);
      sift_up(hook.position);
    } else if (deadline < hook.queued_at) {
      hook.queued_at = deadline;
      sift_up(hook.position);
    }
  }

  void remove(T& object) {
    object.timer.deadline = kNever;
    const size_t at = object.timer.position;
    if (at == TimerHook::kNotQueued) return;
    object.timer.position = TimerHook::kNotQueued;
    T* const moved = heap_.back();
    heap_.pop_back();
    if (moved == &object) return;
    heap_[at] = moved;
    moved->timer.position = at;
    sift_up(at);
    sift_down(moved->timer.position);
  }

  // The earliest moment something may be due; possibly early, never late.
  [[nodiscard]] Time next() const {
    return heap_.empty() ? kNever : heap_.front()->timer.queued_at;
  }

  // One object whose deadline has come, its deadline cleared; nullptr when there is none.
  [[nodiscard]] T* pop_due(Time now) {
    while (!heap_.empty() && heap_.front()->timer.queued_at <= now) {
      T* const object = heap_.front();
      const Time deadline = object->timer.deadline;
      remove(*object);
      if (deadline <= now) return object;
      set(*object, deadline);
    }
    return nullptr;
  }

  [[nodiscard]] size_t size() const { return heap_.size(); }

 private:
  [[nodiscard]] Time key(size_t i) const { return heap_[i]->timer.queued_at; }
  void swap_entries(size_t a, size_t b) {
    std::swap(heap_[a], heap_[b]);
    heap_[a]->timer.position = a;
    heap_[b]->timer.position = b;
  }
  void sift_up(size_t i) {
    while (i > 0 && key(i) < key((i - 1) / 2)) {
      swap_entries(i, (i - 1) / 2);
      i = (i - 1) / 2;
    }
  }
  void sift_down(size_t i) {
    for (;;) {
      size_t least = i;
      for (size_t child = 2 * i + 1; child <= 2 * i + 2 && child < heap_.size(); ++child) {
        if (key(child) < key(least)) least = child;
      }
      if (least == i) return;
      swap_entries(i, least);
      i = least;
    }
  }

  std::vector<T*> heap_;
};

}  // namespace verbena
