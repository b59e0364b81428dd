// SPDX-License-Identifier: Apache-2.0
#include "device/completion_channel.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include "device/completion_queue.h"

namespace verbena::device {

CompletionChannel::CompletionChannel() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE)) {}

void CompletionChannel::signal(uint64_t count) { (void)!::write(fd_.get(), &count, sizeof count); }

void CompletionChannel::notify(CompletionQueue& cq) {
  {
    const std::lock_guard lock(mutex_);
    events_.push_back(&cq);
    if (direct_) {
      ++unsignaled_;
      return;
    }
  }
  signal(1);
}

void CompletionChannel::begin_direct() {
  const std::lock_guard lock(mutex_);
  direct_ = true;
}

bool CompletionChannel::end_direct(CompletionQueue*& cq) {
  uint64_t rest = 0;
  bool given = false;
  {
    const std::lock_guard lock(mutex_);
    direct_ = false;
    rest = std::exchange(unsignaled_, 0);
    if (rest > 0 && !events_.empty()) {
      cq = pop();
      given = true;
      --rest;
    }
  }
  if (rest > 0) signal(rest);
  return given;
}

bool CompletionChannel::blocking() const { return (::fcntl(fd_.get(), F_GETFL) & O_NONBLOCK) == 0; }

// Not a plain read: another thread may have been quicker, and the descriptor may be a blocking one.
bool CompletionChannel::unsignal() {
  uint64_t one = 0;
  iovec into{&one, sizeof one};
  return ::preadv2(fd_.get(), &into, 1, -1, RWF_NOWAIT) == sizeof one;
}

bool CompletionChannel::take(CompletionQueue*& cq) {
  const std::lock_guard lock(mutex_);
  if (events_.empty() || !unsignal()) return false;
  cq = pop();
  return true;
}

int CompletionChannel::wait(CompletionQueue*& cq) {
  for (;;) {
    uint64_t one = 0;
    if (::read(fd_.get(), &one, sizeof one) != sizeof one) return errno;
    const std::lock_guard lock(mutex_);
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
  const std::lock_guard lock(mutex_);
  const auto kept = std::ranges::remove(events_, &cq);
  const size_t n = kept.size();
  events_.erase(kept.begin(), kept.end());
  // Or the descriptor would stay readable without an event, and who sleeps on it would spin.
  for (size_t i = 0; i < n; ++i) (void)unsignal();
}

}  // namespace verbena::device
