// SPDX-License-Identifier: Apache-2.0
// Marks of congestion (ECN, RFC 3168): routers put one on a packet that says it may be marked,
// instead of dropping it when it is too late. Packets say so once the peer is known to answer
// marks: it is one of ours, or the program's traffic class has it. What arrives marked is answered
// by a congestion notification (CNP, RoCEv2 annex A17.9.3), as NICs do: at most one in 50 us for a
// queue pair. A marked READ response is not: who asked decides how much is under way, and asks for
// less.
//
// Who never sends what may be marked never gets a notification.
#pragma once

#include "base/time.h"
#include "transport/core.h"

namespace verbena::transport::marks {

[[nodiscard]] constexpr bool is_marked(uint8_t traffic_class) { return (traffic_class & 3) == 3; }

// A packet of the peer's may show that it is one of ours.
void learn(QueuePair& qp, const InPacket& packet);
// Whether a notification from the peer's address can be true, and is as hard to forge as may be:
// something is under way that may have been marked; and one of ours, which has one port, sent it.
[[nodiscard]] bool believes(const QueuePair& qp, const InPacket& notice);
// Packets of this kind came from the peer, marked.
void on_marked(Core& core, QueuePair& qp, const wire::OpcodeInfo& info, uint32_t packets, Time now);

}  // namespace verbena::transport::marks
