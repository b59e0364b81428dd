// SPDX-License-Identifier: Apache-2.0
// A completion queue: a ring that the engine fills under its lock and programs empty without it.
//
//   consumed_ <= published_ <= staged_ <= consumed_ + capacity
//
// [consumed_, published_) may be polled; [published_, staged_) becomes so once the ACKs of the same
// batch are on the wire (publish(), by the engine).
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <span>
#include <vector>

#include "device/completion_channel.h"
#include "transport/work.h"

namespace verbena::device {

class CompletionQueue;

// Told when a queue has something to publish, so that the engine visits only those; and when one
// overflowed.
class CompletionOwner {
 public:
  virtual ~CompletionOwner() = default;
  virtual void completion_staged(CompletionQueue& cq) = 0;
  virtual void completion_overflow(CompletionQueue& cq) = 0;
};

class CompletionQueue final : public transport::CompletionQueue {
 public:
  CompletionQueue(CompletionOwner& owner, uint32_t entries, CompletionChannel* channel);

  // --- the engine's side, under its lock
  void push(const transport::Completion& completion) override;
  // True when it woke a sleeper.
  bool publish();
  // Forgets completions of a queue pair that is reset or destroyed (what was polled stays polled).
  void purge(Qpn qpn);
  // EINVAL when more is outstanding than would fit. `ring` is ring_for(entries), made before the
  // lock was taken, and holds afterwards what is to be freed after it.
  using Ring = std::vector<transport::Completion>;
  [[nodiscard]] static Ring ring_for(uint32_t entries);
  [[nodiscard]] int resize(uint32_t entries, Ring& ring);

  // --- programs' side, any thread
  [[nodiscard]] uint32_t poll(std::span<transport::Completion> out);
  // The next completion (or solicited one) raises an event on the channel, once.
  void arm(bool solicited_only);
  [[nodiscard]] bool armed() const { return armed_.load(std::memory_order_relaxed) != Armed::kNo; }
  // Whether anything may be polled; a hint, without a lock.
  [[nodiscard]] bool empty() const {
    return published_.load(std::memory_order_acquire) == consumed_.load(std::memory_order_relaxed);
  }
  // Around fork: no other thread is polling.
  void before_fork() { consumer_.lock(); }
  void after_fork() { consumer_.unlock(); }
  [[nodiscard]] uint32_t entries() const { return entries_; }
  [[nodiscard]] CompletionChannel* channel() const { return channel_; }
  [[nodiscard]] bool overflowed() const { return overflowed_.load(std::memory_order_relaxed); }

  // For whoever owns this queue: queue pairs that use it (busy while not zero), and a handle of the
  // owner's.
  uint32_t users = 0;
  void* cookie = nullptr;
  bool staged_listed = false;  // in the engine's list of queues to publish

 private:
  enum class Armed : uint8_t { kNo, kSolicited, kAny };

  CompletionOwner& owner_;
  CompletionChannel* const channel_;
  uint32_t entries_;
  std::mutex consumer_;  // among pollers; held briefly
  Ring ring_;
  uint64_t mask_;
  uint64_t staged_ = 0;
  bool staged_solicited_ = false;       // of what is staged: wakes a solicited-only waiter
  std::atomic<uint64_t> published_{0};  // release by publish(); acquire by poll()
  std::atomic<uint64_t> consumed_{0};   // release by poll(); acquire by push()
  std::atomic<Armed> armed_{Armed::kNo};
  std::atomic<bool> overflowed_{false};
};

}  // namespace verbena::device
