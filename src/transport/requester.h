// SPDX-License-Identifier: Apache-2.0
// The requester: turns send queue entries into packets. It sends as far as the window, fences,
// max_rd_atomic and the link allow; acknowledgements (completer.h) and timers (recovery.h) move it
// on.
//
// A READ of many packets is asked for in segments of a few (each a READ request of its own on the
// wire, which a responder cannot tell from separate work requests), so that what a receiver must
// buffer, and what one loss costs, is bounded.
#pragma once

#include <cstdint>

#include "base/time.h"
#include "transport/core.h"

namespace verbena::transport::requester {

// Sends what may be sent now, at most a quantum of packets; makes the queue pair runnable if there
// is more, or if it must wait for its turn.
void pump(Core& core, QueuePair& qp, Time now);

// The same, when it has its turn.
void take_turn(Core& core, QueuePair& qp, Time now);

// Sends `packets` packets from `from` once more, the last with AckReq, leaving the cursor where it
// is: a repair or a probe. They have been sent before. A READ request that did not arrive must be
// repeated to the end of its segment, or the responder would remember it as two; responses that did
// not arrive may be asked for one by one.
enum class Resend : uint8_t { kRequests, kResponses };
void resend(Core& core, QueuePair& qp, Resend what, wire::Psn from, uint32_t packets, Time now);
// Goes on with one that had no room. False when it still has none.
[[nodiscard]] bool go_on_with_resend(Core& core, QueuePair& qp, Time now);
// Packets before `end` went again.
void note_resent(SendSide& send, wire::Psn end, Core& core, uint32_t packets);

// PSNs that a message of `length` bytes takes.
[[nodiscard]] uint32_t packets_for(uint64_t length, uint32_t mtu);
// What packets [from, to) of an entry weigh against the window.
[[nodiscard]] uint64_t cost(const QueuePair& qp, const SendWqe& wqe, uint32_t from, uint32_t to);
// Packets of one READ segment of an entry that starts now.
[[nodiscard]] uint32_t read_segment_packets(const QueuePair& qp, uint64_t length);
// End of the READ segment that holds packet `packet`.
[[nodiscard]] uint32_t segment_end(const SendWqe& wqe, uint32_t packet);

}  // namespace verbena::transport::requester
