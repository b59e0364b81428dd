// SPDX-License-Identifier: Apache-2.0
#include "device/completion_queue.h"

#include <algorithm>
#include <bit>
#include <cerrno>

#include "link/clock.h"

namespace verbena::device {
namespace {

// A completion that was purged: polled over, never shown.
constexpr Qpn kPurged{0xffffffff};

}  // namespace

uint64_t raw_clock_ns() { return static_cast<uint64_t>(link::monotonic_now()); }

CompletionQueue::CompletionQueue(CompletionOwner& owner, uint32_t entries,
                                 CompletionChannel* channel, const CompletionQueueOptions& options)
    : owner_(owner),
      channel_(channel),
      options_(options),
      ring_(ring_for(entries)),
      mask_(ring_.size() - 1) {}

void CompletionQueue::push(const transport::Completion& completion) {
  if (staged_ - consumed_.load(std::memory_order_acquire) >= mask_) {
    if (!overflowed_.exchange(true) && !options_.ignore_overrun) owner_.completion_overflow(*this);
    return;
  }
  ring_.completions[staged_ & mask_] = completion;
  if (options_.stamped()) {
    ring_.stamps[staged_ & mask_] = {
        .raw_ns = options_.raw_stamps ? raw_clock_ns() : 0,
        .wall_ns = options_.wall_stamps ? static_cast<uint64_t>(link::wall_now()) : 0};
  }
  ++staged_;
  if (completion.solicited || completion.status != transport::WcStatus::kSuccess) {
    staged_solicited_ = staged_;
    if (completion.status != transport::WcStatus::kSuccess)
      owner_.completion_failed(completion.qpn);
  }
  if (!staged_listed) {
    staged_listed = true;
    owner_.completion_staged(*this);
  }
}

// seq_cst, here and in arm(): each stores what it has to say and then reads what the other said, so
// that one of the two sees both.
bool CompletionQueue::publish() {
  staged_listed = false;
  const uint64_t before = published_.load(std::memory_order_relaxed);
  if (before == staged_) return false;
  const bool solicited = staged_solicited_ > before;
  if (solicited) solicited_.store(staged_solicited_, std::memory_order_seq_cst);
  published_.store(staged_, std::memory_order_seq_cst);
  const Armed armed = armed_.load(std::memory_order_seq_cst);
  if (armed == Armed::kNo || (armed == Armed::kSolicited && !solicited)) return false;
  return fire();
}

// A wish that became stronger just now is fulfilled as well.
bool CompletionQueue::fire() {
  if (armed_.exchange(Armed::kNo) == Armed::kNo) return false;  // somebody else was quicker
  raised_at_.store(consumed_.load(std::memory_order_relaxed), std::memory_order_relaxed);
  if (channel_ != nullptr) channel_->notify(*this);
  return true;
}

void CompletionQueue::purge(Qpn qpn) {
  const MutexLock lock(consumer_);
  for (uint64_t i = consumed_.load(std::memory_order_relaxed); i != staged_; ++i) {
    Qpn& of = ring_.completions[i & mask_].qpn;
    if (of == qpn) of = kPurged;
  }
}

CompletionQueue::Ring CompletionQueue::ring_for(uint32_t entries) const {
  const size_t places = std::bit_ceil(size_t{entries} + 1);
  return {.completions = std::vector<transport::Completion>(places),
          .stamps = std::vector<Stamp>(options_.stamped() ? places : 0)};
}

int CompletionQueue::resize(Ring& ring) {
  const MutexLock lock(consumer_);
  const uint64_t consumed = consumed_.load(std::memory_order_relaxed);
  const uint64_t mask = ring.size() - 1;
  if (staged_ - consumed > mask) return EINVAL;
  for (uint64_t i = consumed; i != staged_; ++i) {
    ring.completions[i & mask] = ring_.completions[i & mask_];
    if (options_.stamped()) ring.stamps[i & mask] = ring_.stamps[i & mask_];
  }
  std::swap(ring_, ring);
  mask_ = ring_.size() - 1;
  return 0;
}

uint32_t CompletionQueue::poll(std::span<transport::Completion> out, Stamp* stamps) {
  if (empty()) {
    // An event may come for what was polled meanwhile. This look has found nothing: what comes from
    // here on counts as a next one for arm().
    if (raised_at_.load(std::memory_order_relaxed) != kNoEvent) {
      raised_at_.store(kNoEvent, std::memory_order_relaxed);
    }
    return 0;
  }
  uint32_t n = 0;
  bool leaves_expected = false;
  {
    const MutexLock lock(consumer_);
    uint64_t at = consumed_.load(std::memory_order_relaxed);
    const uint64_t end = published_.load(std::memory_order_acquire);
    while (at != end && n < out.size()) {
      const transport::Completion& completion = ring_.completions[at & mask_];
      if (completion.qpn != kPurged) {
        if (stamps != nullptr) stamps[n] = ring_.stamps[at & mask_];
        out[n++] = completion;
      }
      ++at;
    }
    consumed_.store(at, std::memory_order_release);
    leaves_expected = at < expected_;
    if (leaves_expected) expected_ = 0;
  }
  if (leaves_expected) fire();
  return n;
}

bool CompletionQueue::arm(bool solicited_only) {
  // An event for every completion is the stronger wish: it is not weakened by a later, lesser one.
  Armed before = armed_.load(std::memory_order_relaxed);
  const Armed wish = solicited_only ? Armed::kSolicited : Armed::kAny;
  do {
    if (before >= wish) return false;
  } while (!armed_.compare_exchange_weak(before, wish, std::memory_order_seq_cst));
  const uint64_t newest =
      (solicited_only ? solicited_ : published_).load(std::memory_order_seq_cst);
  {
    const MutexLock lock(consumer_);
    const uint64_t consumed = consumed_.load(std::memory_order_relaxed);
    const bool polled = raised_at_.load(std::memory_order_relaxed) != consumed;
    expected_ = polled ? 0 : newest;
    if (newest <= consumed || !polled) return false;
  }
  return fire();
}

}  // namespace verbena::device
