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

// A run (wire/run.h): where the payload of its first packets goes, none if it cannot be taken as
// one; the payload of its packet `index`, where they do not lie side by side (false: it is not
// placed); and so many packets of it are there.
[[nodiscard]] RunPlace place_of_run(const Core& core, QueuePair& qp, const wire::Run& run);
[[nodiscard]] bool place(const Core& core, const QueuePair& qp, uint32_t index,
                         std::span<const uint8_t> payload);
void on_run(Core& core, QueuePair& qp, uint32_t packets, bool ack_request);

}  // namespace verbena::transport::responder
