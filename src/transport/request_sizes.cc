// SPDX-License-Identifier: Apache-2.0
// Requester: into how many packets and segments a request is cut, and what they cost.
#include <algorithm>
#include <bit>

#include "transport/flow.h"
#include "transport/requester.h"

namespace verbena::transport::requester {

// An MTU is a power of two: to divide by it takes as long as all the rest of a small message's way
// through here.
uint32_t packets_for(uint64_t length, uint32_t mtu) {
  return length == 0 ? 1 : static_cast<uint32_t>((length + mtu - 1) >> std::countr_zero(mtu));
}

uint64_t cost(const QueuePair& qp, const SendWqe& wqe, uint32_t from, uint32_t to) {
  const uint64_t begin = std::min<uint64_t>(uint64_t{from} * qp.mtu, wqe.length);
  const uint64_t end = std::min<uint64_t>(uint64_t{to} * qp.mtu, wqe.length);
  return end - begin + uint64_t{to - from} * kPacketOverhead;
}

uint32_t read_segment_packets(const QueuePair& qp, uint64_t length) {
  const FlightLimits& limits = qp.send.window.limits;
  uint64_t bytes = limits.max_bytes;
  uint32_t in_parallel = std::clamp<uint32_t>(qp.attr.max_rd_atomic, 1, 4);
  if (flow::applies(qp)) {
    // The responses to one request come at once, and a queue on the way must have room for them. Of
    // a long READ more: it may be asked for while the window is small, and last until it is large.
    // All requests together are for two windows, or one that is small could not grow.
    constexpr uint64_t kLong = 256 * 1024;
    const uint64_t least = length < kLong ? 8 * 1024 : 32 * 1024;
    in_parallel = std::clamp<uint32_t>(qp.attr.max_rd_atomic / 2, in_parallel, 8);
    const uint64_t window = qp.flow.destination->way(Direction::kIn).control.window();
    bytes = std::min(bytes, std::max(window, in_parallel * least));
  }
  const uint64_t in_window =
      std::min<uint64_t>(bytes / (qp.mtu + kPacketOverhead), limits.max_packets);
  return static_cast<uint32_t>(std::max<uint64_t>(in_window / in_parallel, 1));
}

uint32_t segment_end(const SendWqe& wqe, uint32_t packet) {
  const uint32_t segment = wqe.segment_packets;
  return std::min((packet / segment + 1) * segment, wqe.packets);
}

}  // namespace verbena::transport::requester
