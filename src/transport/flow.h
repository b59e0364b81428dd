// SPDX-License-Identifier: Apache-2.0
// What a queue pair whose peer is on another host may send now: its destination's window
// (congestion.h) and pace, shared with the other queue pairs that go there. Who finds no room waits
// in line, and has a turn of a few packets when there is some.
//
// What a queue pair charges to a way is what it has out and unacknowledged. While it repairs a loss
// towards a receiver that keeps what follows, nothing of that is acknowledged although it leaves
// the network. Where a scoreboard tells what arrived and what is lost (selective.h), that is no
// longer charged. Where none does, the charge falls, over a round trip, to what was sent meanwhile.
// Or the loss of one packet would stop all for a round trip, and everything would leave at once
// after it.
//
// All functions but applies() are for queue pairs that have a destination.
#pragma once

#include "base/time.h"
#include "transport/core.h"

namespace verbena::transport::flow {

// Packets of a turn while others wait.
inline constexpr uint32_t kTurnPackets = 16;

[[nodiscard]] inline bool applies(const QueuePair& qp) { return qp.flow.destination != nullptr; }
[[nodiscard]] inline Direction direction_of(const SendWqe& wqe) {
  return wqe.op == SendOp::kRead ? Direction::kIn : Direction::kOut;
}

// The queue pair's path leads to another host; may be called again when it was changed.
void join(Core& core, QueuePair& qp);
// It sends nothing any more.
void stop(Core& core, QueuePair& qp);
void leave(Core& core, QueuePair& qp);

// Whether so much may be sent now; if not, the queue pair is in line.
[[nodiscard]] bool admits(Core& core, QueuePair& qp, Direction direction, uint64_t cost, Time now);
// Nothing of it can be answered.
[[nodiscard]] bool waits_with_nothing_out(const QueuePair& qp);
// How much may be sent now by one that admits() let pass.
[[nodiscard]] uint64_t room(const QueuePair& qp, Direction direction, Time now);
// Whether nothing more can follow what is about to be sent before something is acknowledged.
[[nodiscard]] bool closes_behind(const QueuePair& qp, Direction direction, uint64_t cost);
// Packets after which an acknowledgement is asked for.
[[nodiscard]] uint32_t ack_every(const QueuePair& qp, uint32_t most);
// Sent, for the first time or after going back.
void on_sent(QueuePair& qp, Direction direction, uint64_t cost, Time now);
// Sent beside the window: a repair.
void on_resent(QueuePair& qp, Direction direction, uint64_t cost, Time now);
// Whether repairs may leave now; if not, the queue pair is in line.
[[nodiscard]] bool admits_resend(Core& core, QueuePair& qp, Direction direction, Time now);
// The answer to what ends with this PSN is timed.
void time_round_trip(QueuePair& qp, Direction direction, wire::Psn psn, Time now);
void stop_timing(QueuePair& qp);
// Of the oldest packet that is out, which goes a second time.
void stop_timing_oldest(QueuePair& qp);
// How long an answer takes on the way there, at most; 0 while that is not known.
[[nodiscard]] Duration answer_time(const QueuePair& qp);
// The pump has sent what it could: the next in line has its turn.
void end_turn(Core& core, QueuePair& qp, Time now);

// Of what was out, so much is acknowledged; of that, so much was known to have arrived.
void on_acked(QueuePair& qp, Direction direction, uint64_t cost, uint64_t known);
// So much arrived, and is not acknowledged yet.
void on_arrived(QueuePair& qp, Direction direction, uint64_t cost);
// After all that one packet acknowledged.
void on_progress(Core& core, QueuePair& qp, Time now);
// `renewed`: it is the first since the last was repaired.
void on_loss(Core& core, QueuePair& qp, Direction direction, uint64_t cost, bool renewed, Time now);
// --- of a direction that has a scoreboard
// So much was found lost, the last of it sent then.
void on_lost(QueuePair& qp, Direction direction, uint64_t cost, Time sent_at, Time now);
// Whether a repair of so much may leave now; if not, the queue pair is in line.
[[nodiscard]] bool admits_repair(Core& core, QueuePair& qp, Direction direction, uint64_t cost,
                                 Time now);
void on_needless_repair(QueuePair& qp, Direction direction, Time now);
// What is missing is lost when it is late by so much; a packet was late by `lateness`.
[[nodiscard]] Duration reordering_window(QueuePair& qp, Direction direction, Duration lateness);
// A packet's answer took so long; `delivered` (modulo 2^32) was when it was sent.
void on_round_trip(QueuePair& qp, Direction direction, Duration round_trip, uint32_t delivered,
                   Time now);
[[nodiscard]] Duration round_trip(const QueuePair& qp, Direction direction);
// Shorter than any so far, or none is known: it may be that of a copy sent earlier.
[[nodiscard]] bool is_too_short(const QueuePair& qp, Direction direction, Duration round_trip);
[[nodiscard]] uint64_t delivered(const QueuePair& qp, Direction direction);
// The scoreboard has changed.
void recharge(QueuePair& qp, Direction direction, Time now);
// The peer's socket has room for so much of what we send; 0: it does not say.
void on_receive_room(QueuePair& qp, uint64_t bytes);
// A packet came from the peer, which has a share of our own socket's room.
void on_heard(Core& core, QueuePair& qp, Time now);

// Everything out is taken back, to be sent again.
void on_go_back(QueuePair& qp);
void on_timeout(QueuePair& qp, Time now);
// Congestion was met by what we send, or by what we receive.
void on_mark(QueuePair& qp, Direction direction, Time now);

void on_timer(Core& core, Destination& destination, Time now);

// --- UC and UD, which have no destination: what nobody acknowledges (open_rate.h). While reliable
// queue pairs have something under way to the same host, it leaves at their pace, and takes part of
// it.
// How many packets may go there at once; 0: the queue pair's timer is set.
[[nodiscard]] uint32_t open_turn(Core& core, QueuePair& qp, const wire::Gid& to, Time now);
void on_open_sent(Core& core, const Path& path, uint64_t cost, Time now);

}  // namespace verbena::transport::flow
