// SPDX-License-Identifier: Apache-2.0
// The send queue: a ring of work queue entries, allocated once when the queue pair is made. Entries
// are numbered for ever upward; the ring holds [head, tail):
//
//     head <= cursor <= tail        head: oldest entry not complete
//                                   cursor: entry the requester sends from next (requester.h)
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "transport/queue_ends.h"
#include "transport/work.h"
#include "wire/psn.h"

namespace verbena::transport {

struct DatagramTarget {
  Path path;
  Qpn qpn;
  uint32_t qkey = 0;
};

struct BindTarget {
  RKey window;
  memory::WindowBind bind;
};

struct ConfigTarget {
  LKey key;
  memory::KeyConfig config;
};

struct CopyTarget {
  memory::Sge to;
  memory::Sge from;
};

struct SendWqe {
  uint64_t wr_id = 0;
  uint64_t length = 0;  // of the message
  RemoteAddr remote_addr;
  uint64_t compare_add = 0;
  uint64_t swap = 0;
  RKey rkey;
  uint32_t imm_or_invalidate = 0;
  SrqId remote_srq;    // XRC
  uint32_t flags = 0;  // SendFlags
  SendOp op = SendOp::kSend;
  uint8_t entries = 0;     // scatter/gather entries; 0 with inline data
  bool started = false;    // first_psn is assigned
  bool cancelled = false;  // does nothing, but completes
  // kSuccess, or why this entry must fail once all before it are complete.
  WcStatus local_status = WcStatus::kSuccess;
  uint32_t packets = 0;  // PSNs it takes: for a READ those of its responses; 0 for local operations
  uint32_t segment_packets = 0;  // of a READ: those that are asked for at once
  wire::Psn first_psn;

  [[nodiscard]] bool is_atomic() const {
    return op == SendOp::kCompareSwap || op == SendOp::kFetchAdd || op == SendOp::kAtomicWrite;
  }
  // Answered by a packet of its own, which counts against max_rd_atomic.
  [[nodiscard]] bool wants_response() const {
    return !cancelled && (op == SendOp::kRead || is_atomic());
  }
  [[nodiscard]] bool is_local() const {
    return cancelled || op == SendOp::kLocalInvalidate || op == SendOp::kBindWindow ||
           op == SendOp::kConfigureKey || op == SendOp::kCopy;
  }
  [[nodiscard]] bool is_done_locally() const {
    return is_local() && started && local_status == WcStatus::kSuccess;
  }
};

struct SendQueueCaps {
  uint32_t max_entries = 0;
  uint32_t max_sge = 0;
  uint32_t max_inline = 0;
};

class SendQueue {
 public:
  SendQueue(const SendQueueCaps& caps, bool datagrams);

  [[nodiscard]] const SendQueueCaps& caps() const { return caps_; }
  [[nodiscard]] uint64_t head() const { return ends_.head(); }
  [[nodiscard]] uint64_t tail() const { return ends_.tail(); }
  [[nodiscard]] bool empty() const { return ends_.empty(); }
  [[nodiscard]] uint64_t size() const { return ends_.size(); }
  [[nodiscard]] uint32_t max_entries() const { return caps_.max_entries; }
  [[nodiscard]] uint64_t room() const {
    const uint64_t used = size();
    return used >= caps_.max_entries ? 0 : caps_.max_entries - used;
  }
  [[nodiscard]] bool full() const { return size() >= caps_.max_entries; }

  [[nodiscard]] SendWqe& at(uint64_t number) { return wqes_[slot(number)]; }
  [[nodiscard]] const SendWqe& at(uint64_t number) const { return wqes_[slot(number)]; }
  [[nodiscard]] std::span<const memory::Sge> list(uint64_t number) const {
    return {sges_.data() + slot(number) * caps_.max_sge, wqes_[slot(number)].entries};
  }
  [[nodiscard]] std::span<const uint8_t> inline_data(uint64_t number) const {
    return {inline_.data() + slot(number) * caps_.max_inline, wqes_[slot(number)].length};
  }
  [[nodiscard]] const DatagramTarget& datagram(uint64_t number) const {
    return datagrams_[slot(number)];
  }
  [[nodiscard]] const BindTarget& bind(uint64_t number) const;
  [[nodiscard]] const ConfigTarget& config(uint64_t number) const;
  [[nodiscard]] const CopyTarget& copy(uint64_t number) const;
  // Whether is(sge) holds for one of those that requests [from, to) name.
  template <typename Is>
  [[nodiscard]] bool any_entry(uint64_t from, uint64_t to, Is&& is) const {
    for (uint64_t number = from; number < to; ++number) {
      if (std::ranges::any_of(list(number), is)) return true;
    }
    return false;
  }

  // Operations whose targets take memory that a queue without them does not pay for: they are
  // pushed by who has the endpoint only.
  [[nodiscard]] static bool is_rare(SendOp op) {
    return op == SendOp::kBindWindow || op == SendOp::kConfigureKey || op == SendOp::kCopy;
  }
  // Whether there is memory for these, which are to be pushed next.
  [[nodiscard]] bool make_room(std::span<const SendRequest> requests) noexcept {
    return std::ranges::none_of(requests, &SendQueue::is_rare, &SendRequest::op) ||
           make_rare_room(requests);
  }
  // Appends; the caller has checked that the queue is not full and that the request fits the caps,
  // and has made room.
  void push(const SendRequest& request, uint64_t length);
  void pop_head() {
    if (!configs_.empty()) give_back(configs_[slot(head())].config);
    ends_.take();
  }
  void clear() {
    while (!empty()) pop_head();
  }

 private:
  [[nodiscard]] bool make_rare_room(std::span<const SendRequest> requests) noexcept;
  // The room of a list is used again, but not that of a very long one: in a deep queue, each place
  // would come to have one.
  static void give_back(memory::KeyConfig& config) {
    constexpr size_t kKept = 256;
    if (config.blocks.capacity() > kKept) config.blocks = std::vector<memory::KeyBlock>();
  }
  [[nodiscard]] size_t slot(uint64_t number) const { return static_cast<size_t>(number) & mask_; }

  SendQueueCaps caps_;
  size_t mask_;
  std::vector<SendWqe> wqes_;
  std::vector<memory::Sge> sges_;
  std::vector<uint8_t> inline_;
  std::vector<DatagramTarget> datagrams_;  // UD only
  // Filled at the first of their kind.
  std::vector<BindTarget> binds_;
  std::vector<ConfigTarget> configs_;
  std::vector<CopyTarget> copies_;
  QueueEnds ends_;
};

}  // namespace verbena::transport
