// SPDX-License-Identifier: Apache-2.0
// Reliable queue pairs between simulated hosts, for runs that measure: each has a memory of its own
// that the peer may read and write, and posts the same operation over and over.
#pragma once

#include <cstdint>
#include <vector>

#include "link/simulated_node.h"

namespace verbena::sim {

class PlainQp {
 public:
  static constexpr uint64_t kIova = 0x10000;

  PlainQp(link::SimulatedNode& node, uint32_t message_bytes, uint32_t depth);

  // `marked`: what it sends may be marked by routers (ECN), as the program's choice.
  void connect(const PlainQp& peer, transport::Mtu mtu, Time now, bool marked = false);
  // Posts message `number` to or from the same place of the peer's memory.
  void post(const PlainQp& peer, transport::SendOp op, uint64_t number, Time now);

  [[nodiscard]] link::SimulatedNode& node() { return node_; }
  [[nodiscard]] Qpn qpn() const { return qpn_; }
  [[nodiscard]] uint32_t message_bytes() const { return message_bytes_; }
  [[nodiscard]] uint32_t depth() const { return depth_; }

 private:
  link::SimulatedNode& node_;
  uint32_t message_bytes_;
  uint32_t depth_;
  std::vector<uint8_t> memory_;
  Qpn qpn_;
  memory::RegionKeys keys_;
};

}  // namespace verbena::sim
