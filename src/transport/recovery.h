// SPDX-License-Identifier: Apache-2.0
// What the send side does about loss: timers, tail probes, going back and repairing.
//
// The rules, in the order they act (docs/recovery.md says what each is worth):
//  1. A sequence NAK names the request packet that is missing. Towards a peer that drops early
//  packets, as
//     the standard's does, the requester goes back to `una`. Towards one that has shown that it
//     keeps them (it acknowledged more than was sent again), it repairs: the missing packet is sent
//     again, and where losses are so frequent that others are likely missing as well, some that
//     follow. When what follows a repair is missing too, that is a burst, and it goes back. A NAK
//     for what was sent again less than a round trip ago is old news.
//  2. Responses are kept here when they come early, so every hole in them is known, and asked for
//  at once.
//  3. Silence: a loss at the tail draws no NAK, and a NAK or a repair can be lost too. After a
//  probe timeout
//     (a round trip or two, doubling until one is measured) the oldest packet is sent again; the
//     answer says what is missing. An acknowledgement of packets behind the probe is no answer: a
//     slow peer is still at work on them. No retry is spent.
//  4. When the IB timeout passes without progress a retry is spent and it goes back; at 0 the entry
//  fails.
//  5. Within a host the window loses a quarter when one in eight packets of it is lost (and more
//     than two), once per window in flight: so many are lost when a receiver overflows, fewer are
//     the link's own loss, which no window helps. Each window acknowledged gives two packets back;
//     until it was too large for the first time, a quarter. To other hosts congestion.h has the
//     rules, for all queue pairs that go there.
#pragma once

#include "base/time.h"
#include "transport/core.h"

namespace verbena::transport::recovery {

// Sets the timers for what is in flight; called after sending.
void arm(Core& core, QueuePair& qp, Time now);
void on_timer(Core& core, QueuePair& qp, Time now);

// After an answer from another host: what is late is lost.
void look(Core& core, QueuePair& qp, Time now);
void on_progress(Core& core, QueuePair& qp, uint64_t acked_cost, Time now);
// A sequence NAK: the peer waits for the request packet with this PSN.
void on_missing_request(Core& core, QueuePair& qp, wire::Psn missing, Time now);
// All requests before `limit` were answered, and the response at una is not there.
void on_missing_response(Core& core, QueuePair& qp, wire::Psn limit, Time now);
// All up to `acked` was acknowledged (una has been moved): was it the answer to a probe?
void on_probe_answer(Core& core, QueuePair& qp, wire::Psn acked, Time now);
void on_rnr(Core& core, QueuePair& qp, Duration wait, Time now);

void place_cursor_at_una(QueuePair& qp);

// While nothing is under way: a copy of what was acknowledged last, or of what would have been
// before the first. Its payload does not matter, for duplicates are acknowledged unseen.
void ping(Core& core, const QueuePair& qp);

}  // namespace verbena::transport::recovery
