// SPDX-License-Identifier: Apache-2.0
// The stages a request packet must pass before it is executed, shared by RC and UC
// (IBA 9.7.4, 9.8.2).
#pragma once

#include "transport/core.h"

namespace verbena::transport {

enum class Verdict : uint8_t {
  kGood,
  kInvalidRequest,     // NAK 0x61
  kRemoteAccess,       // NAK 0x62
  kRemoteOperational,  // NAK 0x63: our side cannot carry it out
  kTooLong,            // NAK 0x61, and the receive completes with a local length error
  kNotReady,           // RNR NAK
};

// Opcode sequence, operation allowed, resource, length, R_Key: the first that refuses. May take a
// receive.
[[nodiscard]] Verdict check_request(Core& core, QueuePair& qp, const InPacket& packet);

// Takes the next receive for this queue pair; false when there is none. Raises the SRQ limit event.
[[nodiscard]] bool take_receive(Core& core, QueuePair& qp);

}  // namespace verbena::transport
