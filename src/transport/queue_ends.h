// SPDX-License-Identifier: Apache-2.0
// The two ends of a ring of posted work. Entries are numbered for ever upward; the ring holds
// [head, tail). Who posts appends at the tail, who has the endpoint takes from the head; the two
// may be different threads (poster.h).
#pragma once

#include <atomic>
#include <cstdint>

namespace verbena::transport {

class QueueEnds {
 public:
  QueueEnds() = default;
  // Of a queue that nobody uses yet.
  QueueEnds(QueueEnds&& other) noexcept : head_(other.head()), tail_(other.tail()) {}
  QueueEnds(const QueueEnds&) = delete;
  QueueEnds& operator=(const QueueEnds&) = delete;
  QueueEnds& operator=(QueueEnds&&) = delete;
  ~QueueEnds() = default;

  // Acquires: what was taken is out of its place.
  [[nodiscard]] uint64_t head() const { return head_.load(std::memory_order_acquire); }
  // Acquires: what was appended is in its place.
  [[nodiscard]] uint64_t tail() const { return tail_.load(std::memory_order_acquire); }
  [[nodiscard]] bool empty() const { return head() == tail(); }
  [[nodiscard]] uint64_t size() const {
    const uint64_t head = this->head();  // first: the tail may only be further on by now
    return tail() - head;
  }

  // Who posts: the entry at the tail is complete. Released to tail().
  void append() {
    tail_.store(tail_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
  }
  // Who has the endpoint: the entry at the head is not used any more. Released to head().
  void take() { head_.store(head_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }
  void take_all() { head_.store(tail(), std::memory_order_release); }

 private:
  std::atomic<uint64_t> head_{0};
  std::atomic<uint64_t> tail_{0};
};

}  // namespace verbena::transport
