// SPDX-License-Identifier: Apache-2.0
// Replies to READ and atomic requests. Each accepted request has a place in a ring of
// max_dest_rd_atomic; it is answered in order, a quantum of packets at a time, and stays in its
// place so that a duplicate can be answered: a READ is read again, an atomic's saved result is sent
// again, never executed twice.
//
// ACKs wait until no reply is pending: responses go out in PSN order (IBA 9.7.5.1.2).
#pragma once

#include "transport/core.h"
#include "transport/request_checks.h"

namespace verbena::transport::read_replies {

// Whether the next request may be accepted: the peer keeps to the number of requests it was
// granted.
[[nodiscard]] bool has_room(const QueuePair& qp);
// SQD may change how many the peer is granted. The newest are kept; false, and nothing changes,
// when one that must go was never answered.
[[nodiscard]] bool set_places(QueuePair& qp, uint32_t places);
// Carries out a checked READ, atomic or ATOMIC WRITE request and queues its reply.
[[nodiscard]] Verdict execute(Core& core, QueuePair& qp, const InPacket& packet);
// A request that was executed before.
void replay(Core& core, QueuePair& qp, const InPacket& packet);
// Sends pending replies, at most a quantum of packets; then the ACK that waited for them.
void pump(Core& core, QueuePair& qp);

}  // namespace verbena::transport::read_replies
