// SPDX-License-Identifier: Apache-2.0
// A run: packets of one size that follow each other from the middle of a message (WRITE, SEND or
// READ response), as the kernel joins them to one datagram. They differ in nothing but PSN, AckReq
// and payload, so that what is known of the first is known of all.
#pragma once

#include <cstdint>
#include <span>

#include "wire/packet.h"

namespace verbena::wire {

struct Run {
  PacketView first;
  uint32_t packets = 0;  // 0: not a run

  [[nodiscard]] uint32_t payload_bytes() const {
    return static_cast<uint32_t>(first.payload.size());
  }
};

// The run that `joined` begins with, if one does: of packets of `segment` bytes each. ICRCs are not
// looked at.
[[nodiscard]] Run find_run(std::span<const uint8_t> joined, uint32_t segment);

// Whether a packet of a run, given by its first byte, asks for an ACK.
[[nodiscard]] inline bool asks_for_ack(const uint8_t* packet) { return (packet[8] & 0x80) != 0; }

}  // namespace verbena::wire
