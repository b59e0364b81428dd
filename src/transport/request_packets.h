// SPDX-License-Identifier: Apache-2.0
// Requests as packets: what an entry of the send queue looks like on the wire. When they are sent
// is the requester's to say.
#pragma once

#include <cstdint>

#include "transport/core.h"
#include "wire/opcode.h"

namespace verbena::transport::request_packets {

// The opcode of packet `packet` of an entry.
[[nodiscard]] wire::Op opcode_of(const SendWqe& wqe, uint32_t packet);

// One packet of a SEND, WRITE or ATOMIC WRITE; false when the memory under it is not usable.
[[nodiscard]] bool send_data(Core& core, QueuePair& qp, uint64_t number, uint32_t packet, bool ack);
// Asks for packets [from, to) of a READ.
void send_read_request(Core& core, QueuePair& qp, const SendWqe& wqe, uint32_t from, uint32_t to);
void send_atomic(Core& core, QueuePair& qp, const SendWqe& wqe);

}  // namespace verbena::transport::request_packets
