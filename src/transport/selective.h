// SPDX-License-Identifier: Apache-2.0
// Selective repeat: only what is missing is sent, or asked for, again.
//
// Of requests the peer must tell what it has: one of our own does, in extended acknowledgements
// (wire/extended_ack.h), if asked by a bit in each request to another host. The first that names a
// held packet begins a scoreboard of requests, and from then on the scoreboard decides what is
// lost. Until then, and towards a peer that never says it, recovery.h has the rules. Of READ
// responses all is known here: whatever the peer, the first gap in what comes from another host
// begins a scoreboard of responses.
//
// What an acknowledgement says here is never more than a hint when to send again: only a cumulative
// one completes anything. Going back ends it, until the next gap.
#pragma once

#include <optional>
#include <span>

#include "base/time.h"
#include "transport/core.h"
#include "transport/flow.h"
#include "transport/requester.h"
#include "wire/extended_ack.h"

namespace verbena::transport::selective {

// What a request says in Bth::reserved7.
[[nodiscard]] inline uint8_t announcement(const QueuePair& qp) {
  return flow::applies(qp) ? wire::kUnderstandsExtendedAck : 0;
}

// Requests: the scoreboard says what is lost.
[[nodiscard]] inline bool decides(const QueuePair& qp, Direction direction) {
  return qp.send.boards[static_cast<size_t>(direction)] != nullptr;
}

// Packets [from, to) of an entry left. A READ's are its responses, which were asked for.
void on_sent(QueuePair& qp, const SendWqe& wqe, uint32_t from, uint32_t to, Time now);
// The same, once more.
void on_resent(QueuePair& qp, const SendWqe& wqe, requester::Resend what, uint32_t from,
               uint32_t to, Time now);

// All before `limit` is acknowledged and done. Gives what of this direction was known to have
// arrived.
[[nodiscard]] uint64_t on_passed(QueuePair& qp, Direction direction, wire::Psn limit, Time now);
// All requests before `limit` have arrived, though una stays behind at a READ.
void on_acknowledged(QueuePair& qp, wire::Psn limit, Time now);
// An ACK of all before una came: the peer waits for what is there. If it said before that it holds
// that, it dropped it (hold.h). Once for each PSN, or a peer could ask for it without end.
void on_next_awaited(QueuePair& qp);
// A response came before one that is missing; or, not held, something that comes after all
// before `limit`.
void on_early_response(Core& core, QueuePair& qp, wire::Psn psn, Time now);
void on_missing_response(QueuePair& qp, wire::Psn limit, Time now);
// One that was held is not held any more.
void on_dropped_response(QueuePair& qp, wire::Psn psn);
// A response came that was there already.
void on_duplicate_response(Core& core, QueuePair& qp, wire::Psn psn, Time now);
// What an ACK of all up to `psn` says beyond that. False when it is malformed.
[[nodiscard]] bool on_extended_ack(Core& core, QueuePair& qp, wire::Psn psn,
                                   std::span<const uint8_t> extension, Time now);

// Takes what is late for lost, counts it, and sets look_at. After anything of the above.
void look(Core& core, QueuePair& qp, Time now);
// Sends again what is lost, as the way allows. False when some of it must wait.
[[nodiscard]] bool repair(Core& core, QueuePair& qp, uint32_t& budget, Time now);

}  // namespace verbena::transport::selective
