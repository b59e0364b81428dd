// SPDX-License-Identifier: Apache-2.0
// The responder: requests of a connected peer, RC and UC. Each in-order packet goes through the
// stages the standard names, in its order: PSN, opcode sequence, operation allowed, resource,
// length, R_Key, execute, acknowledge. A stage that refuses a packet gives the verdict: RC answers
// with a NAK, UC drops the message.
#pragma once

#include "base/time.h"
#include "transport/core.h"
#include "wire/run.h"

namespace verbena::transport::responder {

void on_request(Core& core, QueuePair& qp, const InPacket& packet);     // RC
void on_uc_request(Core& core, QueuePair& qp, const InPacket& packet);  // UC

// Sends the ACK that is due, unless read replies must go first.
void flush_ack(Core& core, QueuePair& qp);
// Takes up what waited for read replies to go first: requests to be refused, and the NAK for a gap.
void after_replies(Core& core, QueuePair& qp);

// A run (wire/run.h): where the payload of its first packets goes, empty if it cannot be taken as
// one; and so many packets of it are there.
[[nodiscard]] std::span<uint8_t> place_of_run(const Core& core, const QueuePair& qp,
                                              const wire::Run& run);
void on_run(Core& core, QueuePair& qp, uint32_t packets, bool ack_request);

}  // namespace verbena::transport::responder
