// SPDX-License-Identifier: Apache-2.0
// Receive buffers of a queue pair, or of an SRQ that many share: posts them (sometimes late, so
// that the peer meets "receiver not ready"), and checks that each completes once and, on a queue
// pair's own queue, in order.
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "sim/world.h"

namespace verbena::sim {

struct PoolSpec {
  uint32_t slots = 8;
  uint32_t slot_bytes = 4096;
  uint32_t max_sge = 3;
  uint32_t late_percent = 0;
  Duration max_late = kMillisecond;
  uint32_t bad_percent = 0;  // posted with a key that does not exist
};

class RecvPool final : public SrqOwner {
 public:
  RecvPool(World& world, uint32_t host, const PoolSpec& spec);

  [[nodiscard]] uint32_t slot_bytes() const { return spec_.slot_bytes; }
  [[nodiscard]] transport::SharedRecvQueue* make_srq();
  void use_qp(Qpn qpn) { qpn_ = qpn; }
  [[nodiscard]] bool shared() const { return srq_ != nullptr; }
  // From now on there are no late receives.
  void be_prompt() { spec_.late_percent = 0; }
  void no_bad_ones() { spec_.bad_percent = 0; }

  // Posts what is free.
  void start();
  // A receive completed; gives its memory. It is posted again by done_with().
  [[nodiscard]] uint32_t completed(uint64_t wr_id);
  [[nodiscard]] const Range& range(uint32_t slot) const { return slots_[slot].range; }
  [[nodiscard]] bool is_bad(uint32_t slot) const { return slots_[slot].bad; }
  // The model expects `bytes` at the slot's start, and nothing else changed; both are checked.
  void require(uint32_t slot, std::span<const uint8_t> bytes);
  void done_with(uint32_t slot);

  // The queue pair left service: what was posted is gone. Own queues only.
  void stop();
  [[nodiscard]] uint32_t posted() const { return static_cast<uint32_t>(order_.size()); }
  // A message was cut off: part of it may lie in a buffer that is still posted or never came back.
  void accept_memory();
  void on_limit() override;

 private:
  struct Slot {
    Range range;
    enum class State : uint8_t { kFree, kPosted, kInUse } state = State::kFree;
    bool bad = false;
    uint64_t wr_id = 0;
  };
  void post(uint32_t slot);
  void arm_limit();

  World& world_;
  uint32_t host_;
  PoolSpec spec_;
  Region region_;
  std::vector<Slot> slots_;
  Qpn qpn_;
  transport::SharedRecvQueue* srq_ = nullptr;
  bool running_ = false;
  uint64_t generation_ = 0;  // late posts of an earlier life are void
  uint64_t next_wr_ = 0;
  std::deque<uint32_t> order_;  // posted slots, oldest first
  bool armed_ = false;
};

}  // namespace verbena::sim
