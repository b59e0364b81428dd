// SPDX-License-Identifier: Apache-2.0
#include "device/completion_channel.h"

#include <algorithm>
#include <utility>

#include "device/completion_queue.h"

namespace verbena::device {

void CompletionChannel::notify(CompletionQueue& cq) {
  {
    const MutexLock lock(mutex_);
    events_.push_back(&cq);
    if (direct_) {
      ++unsignaled_;
      return;
    }
  }
  count_.add(1);
}

void CompletionChannel::begin_direct() {
  const MutexLock lock(mutex_);
  direct_ = true;
}

bool CompletionChannel::end_direct(CompletionQueue*& cq) {
  uint64_t rest = 0;
  bool given = false;
  {
    const MutexLock lock(mutex_);
    direct_ = false;
    rest = std::exchange(unsignaled_, 0);
    if (rest > 0 && !events_.empty()) {
      cq = pop();
      given = true;
      --rest;
    }
  }
  if (rest > 0) count_.add(rest);
  return given;
}

bool CompletionChannel::take(CompletionQueue*& cq) {
  const MutexLock lock(mutex_);
  if (events_.empty() || !count_.try_take()) return false;
  cq = pop();
  return true;
}

int CompletionChannel::wait(CompletionQueue*& cq) {
  for (;;) {
    if (const int error = count_.take(mutex_); error != 0) return error;
    const MutexLock lock(mutex_);
    if (events_.empty()) continue;  // forgotten just now
    cq = pop();
    return 0;
  }
}

CompletionQueue* CompletionChannel::pop() {
  CompletionQueue* const cq = events_.front();
  events_.pop_front();
  ++cq->channel_events;
  return cq;
}

void CompletionChannel::forget(const CompletionQueue& cq) {
  const MutexLock lock(mutex_);
  const auto kept = std::ranges::remove(events_, &cq);
  const size_t n = kept.size();
  events_.erase(kept.begin(), kept.end());
  // Or the descriptor would stay readable without an event, and who sleeps on it would spin.
  for (size_t i = 0; i < n; ++i) (void)count_.try_take();
}

}  // namespace verbena::device
