// SPDX-License-Identifier: Apache-2.0
// Packets in words, for the demo and for messages about failures; never on the data path.
#pragma once

#include <cstdint>
#include <string>

#include "wire/packet.h"

namespace verbena::wire {

// One line: opcode, destination, PSN, the flags that are set, every header, length of the payload:
//   RC WRITE_FIRST qp 0x000012 psn 0x00abcd va 0x7f0000001000 rkey 0x00001234 len 5000 | 1024 bytes
//   RC ACKNOWLEDGE qp 0x000011 psn 0x00abcd NAK sequence error msn 7
[[nodiscard]] std::string describe(const PacketView& packet);

// An AETH's syndrome: "ACK", "ACK credits 12", "RNR NAK timer 14", "NAK remote access error".
[[nodiscard]] std::string describe_syndrome(uint8_t syndrome);

}  // namespace verbena::wire
