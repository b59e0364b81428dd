// SPDX-License-Identifier: Apache-2.0
// Receive queues: a ring of posted receives, taken in order. One belongs to a queue pair, or is
// shared by many (SRQ) and then has a limit below which it raises an event once. A receive that is
// taken is copied into the queue pair that uses it, so that the ring's place is free at once.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "transport/poster.h"
#include "transport/queue_ends.h"
#include "transport/work.h"

namespace verbena::transport {

// A receive in use by a message.
struct TakenReceive {
  bool present = false;
  uint64_t wr_id = 0;
  std::vector<memory::Sge> list;  // capacity fixed at creation, size is what was posted
  uint64_t length = 0;
};

class RecvQueue {
 public:
  RecvQueue(uint32_t max_entries, uint32_t max_sge);

  [[nodiscard]] uint32_t max_entries() const { return max_entries_; }
  [[nodiscard]] uint32_t max_sge() const { return max_sge_; }
  [[nodiscard]] uint32_t size() const { return static_cast<uint32_t>(ends_.size()); }
  [[nodiscard]] bool empty() const { return ends_.empty(); }
  [[nodiscard]] bool full() const { return size() >= max_entries_; }

  // The caller has checked that there is room and that the list fits.
  void push(const RecvRequest& request);
  // Moves the oldest into `taken`; the queue is not empty.
  void take(TakenReceive& taken);
  // The oldest's total length, without taking it.
  [[nodiscard]] uint64_t peek_length() const;
  void clear() { ends_.take_all(); }

 private:
  struct Entry {
    uint64_t wr_id = 0;
    uint32_t entries = 0;
  };
  [[nodiscard]] size_t slot(uint64_t number) const { return static_cast<size_t>(number) & mask_; }
  [[nodiscard]] std::span<const memory::Sge> list(uint64_t number) const {
    return {sges_.data() + slot(number) * max_sge_, entries_[slot(number)].entries};
  }

  uint32_t max_entries_;
  uint32_t max_sge_;
  size_t mask_;
  std::vector<Entry> entries_;
  std::vector<memory::Sge> sges_;
  QueueEnds ends_;
};

class CompletionQueue;

struct SharedRecvQueue {
  SharedRecvQueue(SrqId number, PdId domain, uint32_t max_entries, uint32_t max_sge)
      : id(number), pd(domain), queue(max_entries, max_sge) {}

  SrqId id;
  PdId pd;
  RecvQueue queue;
  Poster poster;
  // It is destroyed. Set with the endpoint once nobody owns the poster; read by who may append.
  bool closed = false;
  // XRC: the targets of this domain fill it, and its completions go here. Null: not XRC.
  XrcdId xrcd{};
  CompletionQueue* cq = nullptr;
  uint32_t limit = 0;  // 0: not armed
  uint32_t users = 0;  // queue pairs attached
};

}  // namespace verbena::transport
