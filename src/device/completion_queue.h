// SPDX-License-Identifier: Apache-2.0
// A completion queue: a ring that the engine fills under its lock and programs empty without it.
//
//   consumed_ <= published_ <= staged_ <= consumed_ + entries()
//
// [consumed_, published_) may be polled; [published_, staged_) becomes so once the ACKs of the same
// batch are on the wire (publish(), by the engine).
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "base/mutex.h"
#include "device/completion_channel.h"
#include "transport/work.h"

namespace verbena::device {

class CompletionQueue;

// Told when a queue has something to publish, so that the engine visits only those; and what a user
// may have to be told.
class CompletionOwner {
 public:
  virtual ~CompletionOwner() = default;
  virtual void completion_staged(CompletionQueue& cq) = 0;
  virtual void completion_overflow(CompletionQueue& cq) = 0;
  // One of this queue pair says that something went wrong.
  virtual void completion_failed(Qpn qpn) = 0;
};

// When a completion was put into its queue.
struct Stamp {
  uint64_t raw_ns = 0;   // of a clock that only goes forward
  uint64_t wall_ns = 0;  // since 1970
};

// The clock of raw stamps, now.
[[nodiscard]] uint64_t raw_clock_ns();

struct CompletionQueueOptions {
  bool raw_stamps = false;
  bool wall_stamps = false;
  bool ignore_overrun = false;  // what finds no room is lost, and nobody is told

  [[nodiscard]] bool stamped() const { return raw_stamps || wall_stamps; }
};

class CompletionQueue final : public transport::CompletionQueue {
 public:
  CompletionQueue(CompletionOwner& owner, uint32_t entries, CompletionChannel* channel,
                  const CompletionQueueOptions& options = {});

  // --- the engine's side, under its lock
  void push(const transport::Completion& completion) override;
  // True when it woke a sleeper.
  bool publish();
  // Forgets completions of a queue pair that is reset or destroyed (what was polled stays polled).
  void purge(Qpn qpn);
  // EINVAL when more is outstanding than would fit. `ring` is ring_for(), made before the lock was
  // taken, and holds afterwards what is to be freed after it.
  struct Ring {
    std::vector<transport::Completion> completions;
    std::vector<Stamp> stamps;  // empty unless the queue is stamped
    [[nodiscard]] size_t size() const { return completions.size(); }
  };
  // For so many at least. As mlx5 and rxe do, their number and one is rounded up to a power of two;
  // programs were seen to count on it.
  [[nodiscard]] Ring ring_for(uint32_t entries) const;
  [[nodiscard]] int resize(Ring& ring);

  // --- programs' side, any thread
  // `stamps`: room for as many, of a stamped queue.
  [[nodiscard]] uint32_t poll(std::span<transport::Completion> out, Stamp* stamps = nullptr);
  // The next completion (or solicited one) raises an event on the channel, once. One that was not
  // polled yet counts as a next one, as on a NIC that is told with the request how far the program
  // has polled: true, the event is there. Of a program that has polled nothing since the last event
  // it is expected to poll now: the event comes only if that poll leaves some of them.
  bool arm(bool solicited_only);
  [[nodiscard]] bool armed() const { return armed_.load(std::memory_order_relaxed) != Armed::kNo; }
  // Whether anything may be polled; a hint, without a lock.
  [[nodiscard]] bool empty() const {
    return published_.load(std::memory_order_acquire) == consumed_.load(std::memory_order_relaxed);
  }
  // How many completions there were to poll so far, and how many were.
  [[nodiscard]] uint64_t published() const { return published_.load(std::memory_order_relaxed); }
  [[nodiscard]] uint64_t consumed() const { return consumed_.load(std::memory_order_acquire); }
  // Around fork: no other thread is polling.
  void before_fork() VERBENA_ACQUIRE(consumer_) { consumer_.lock(); }
  void after_fork() VERBENA_RELEASE(consumer_) { consumer_.unlock(); }
  // How many fit: at least as many as were asked for.
  [[nodiscard]] uint32_t entries() const { return static_cast<uint32_t>(mask_); }
  [[nodiscard]] CompletionChannel* channel() const { return channel_; }
  [[nodiscard]] bool overflowed() const { return overflowed_.load(std::memory_order_relaxed); }

  // For whoever owns this queue: queue pairs that use it (busy while not zero), and a handle of the
  // owner's.
  uint32_t users = 0;
  void* cookie = nullptr;
  bool staged_listed = false;   // in the engine's list of queues to publish
  uint32_t channel_events = 0;  // given by the channel; counted under its mutex
  uint32_t async_events = 0;    // given about this queue; known once it is destroyed

 private:
  enum class Armed : uint8_t { kNo, kSolicited, kAny };
  // Raises the event that was wished for, unless it was raised.
  bool fire();

  CompletionOwner& owner_;
  CompletionChannel* const channel_;
  const CompletionQueueOptions options_;
  Mutex consumer_;  // among pollers; held briefly
  // Changed with both the engine's lock and consumer_: who has one of them may use it.
  Ring ring_;
  uint64_t mask_;  // one less than places in the ring
  uint64_t staged_ = 0;
  // The end of the newest that wakes a waiter for solicited ones: of what is staged, of what is
  // published.
  uint64_t staged_solicited_ = 0;
  std::atomic<uint64_t> solicited_{0};
  std::atomic<uint64_t> published_{0};  // release by publish(); acquire by poll()
  std::atomic<uint64_t> consumed_{0};   // release by poll(); acquire by push()
  std::atomic<Armed> armed_{Armed::kNo};
  // consumed_ when the last event was raised. Relaxed: one that is polled past meanwhile costs an
  // event too many at most.
  static constexpr uint64_t kNoEvent = UINT64_MAX;
  std::atomic<uint64_t> raised_at_{kNoEvent};
  // A poll that ends before this raises the event.
  uint64_t expected_ VERBENA_GUARDED_BY(consumer_) = 0;
  std::atomic<bool> overflowed_{false};
};

}  // namespace verbena::device
