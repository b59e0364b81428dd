// SPDX-License-Identifier: Apache-2.0
#include "device/completion_channel.h"

#include <algorithm>
#include <cerrno>

#include <sys/eventfd.h>
#include <unistd.h>

namespace verbena::device {

CompletionChannel::CompletionChannel() : fd_(::eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE)) {}

void CompletionChannel::notify(CompletionQueue& cq) {
  {
    const std::lock_guard lock(mutex_);
    events_.push_back(&cq);
  }
  const uint64_t one = 1;
  (void)!::write(fd_.get(), &one, sizeof one);
}

int CompletionChannel::wait(CompletionQueue*& cq) {
  for (;;) {
    uint64_t one = 0;
    if (::read(fd_.get(), &one, sizeof one) != sizeof one) return errno;
    const std::lock_guard lock(mutex_);
    if (events_.empty()) continue;  // forgotten in the meantime
    cq = events_.front();
    events_.pop_front();
    return 0;
  }
}

uint32_t CompletionChannel::forget(const CompletionQueue& cq) {
  // The count in the descriptor may stay higher than the number of events; wait() copes.
  const std::lock_guard lock(mutex_);
  const auto kept = std::ranges::remove(events_, &cq);
  const auto n = static_cast<uint32_t>(kept.size());
  events_.erase(kept.begin(), kept.end());
  return n;
}

}  // namespace verbena::device
