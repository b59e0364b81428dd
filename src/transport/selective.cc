// SPDX-License-Identifier: Apache-2.0
#include "transport/selective.h"

#include <algorithm>
#include <memory>

namespace verbena::transport::selective {
namespace {

using wire::Psn;

[[nodiscard]] std::unique_ptr<Scoreboard>& board_of(QueuePair& qp, Direction direction) {
  return qp.send.boards[static_cast<size_t>(direction)];
}

// Of a READ the requests go out, and all of its responses come in; of an atomic one of each.
[[nodiscard]] bool is_watched(const SendWqe& wqe, uint32_t packet, Direction direction) {
  if (direction == Direction::kIn) return wqe.wants_response();
  return wqe.op != SendOp::kRead || packet % wqe.segment_packets == 0;
}

// What it has charged to the way in this direction.
[[nodiscard]] uint32_t cost_of(const QueuePair& qp, const SendWqe& wqe, uint32_t packet,
                               Direction direction) {
  if (flow::direction_of(wqe) != direction) return 0;
  return static_cast<uint32_t>(requester::cost(qp, wqe, packet, packet + 1));
}

// False when it was known.
bool arrived(QueuePair& qp, Direction direction, Psn psn, Time now) {
  const uint32_t cost = board_of(qp, direction)->on_arrived(psn, now);
  if (cost == 0) return false;
  qp.send.news = true;
  flow::on_arrived(qp, direction, cost);
  return true;
}

// The packets that are out already, as far as it can still be told.
void begin(QueuePair& qp, Direction direction, Time now) {
  std::unique_ptr<Scoreboard>& board = board_of(qp, direction);
  if (board != nullptr) return;
  SendSide& send = qp.send;
  board = std::make_unique<Scoreboard>(
      direction == Direction::kOut ? Scoreboard::Of::kRequests : Scoreboard::Of::kResponses,
      send.una);
  const Duration usual = std::max(send.rtt.smoothed, flow::round_trip(qp, direction));
  const Psn end = qp.cursor_psn();
  for (uint64_t number = qp.sq.head(); number < qp.sq.tail() && number <= send.cursor; ++number) {
    const SendWqe& wqe = qp.sq.at(number);
    if (!wqe.started) break;
    // Of the oldest much may lie behind, up to half of all PSNs.
    const uint32_t from = number == qp.sq.head() ? (send.una - wqe.first_psn.value()).value() : 0;
    for (uint32_t i = from; i < wqe.packets; ++i) {
      const Psn psn = wqe.first_psn + i;
      if (!psn.is_before(end)) break;
      if (is_watched(wqe, i, direction)) {
        board->on_sent_before(psn, cost_of(qp, wqe, i, direction), now - usual);
      }
      if (direction == Direction::kIn && send.hold.find(psn) != nullptr) {
        arrived(qp, direction, psn, now);
      }
    }
  }
  send.rtt.timing = false;
  flow::stop_timing(qp);
  send.recovering = false;
  if (direction == Direction::kOut) send.peer_holds = true;
  flow::recharge(qp, direction, now);
}

// Packets [from, to) of an entry left; of the responses of a READ, the first comes at once.
void note_sent(QueuePair& qp, const SendWqe& wqe, Direction direction, uint32_t from, uint32_t to,
               Time now) {
  Scoreboard* const board = board_of(qp, direction).get();
  if (board == nullptr) return;
  const uint64_t delivered = flow::delivered(qp, direction);
  for (uint32_t i = from; i < to; ++i) {
    if (!is_watched(wqe, i, direction)) continue;
    const uint32_t cost = cost_of(qp, wqe, i, direction);
    const Psn psn = wqe.first_psn + i;
    // Of requests, each that is sent for the first time; of responses, the first of those that are
    // asked for together: the others come as much later as they take.
    const bool timed = direction == Direction::kIn ? i == from : !psn.is_before(qp.send.sent_end);
    board->on_sent(psn, cost, timed && cost != 0, delivered, now);
  }
  flow::recharge(qp, direction, now);
}

void widen(Core& core, QueuePair& qp, Direction direction, Psn psn, Time now) {
  Scoreboard* const board = board_of(qp, direction).get();
  if (board == nullptr || !board->was_needless(psn)) return;
  core.count(Counter::kNeedlessRepair);
  flow::on_needless_repair(qp, direction, now);
}

// One that is lost, and of responses those behind it that are asked for with it. Gives their
// number.
[[nodiscard]] uint32_t lost_together(const QueuePair& qp, const Scoreboard& board,
                                     Direction direction, Psn first) {
  uint32_t packets = 1;
  if (direction == Direction::kOut) return packets;
  const uint32_t most = qp.send.window.limits.max_packets;
  while (packets < most && board.is_lost(first + packets)) ++packets;
  return packets;
}

[[nodiscard]] bool repair(Core& core, QueuePair& qp, Direction direction, uint32_t& budget,
                          Time now) {
  const auto what =
      direction == Direction::kOut ? requester::Resend::kRequests : requester::Resend::kResponses;
  for (;;) {
    Scoreboard* const board = board_of(qp, direction).get();
    if (board == nullptr) return true;
    const std::optional<Psn> first = board->first_lost();
    if (!first) return true;
    if (budget == 0 || !core.link.has_room_towards(qp.attr.path, qp.attr.dest_qpn)) {
      core.make_runnable(qp);
      return false;
    }
    if (!flow::admits_repair(core, qp, direction, board->cost_of(*first), now)) return false;
    const uint32_t packets = lost_together(qp, *board, direction, *first);
    for (uint32_t i = 0; i < packets; ++i) board->on_repair(*first + i);
    core.count(Counter::kRepair);
    --budget;
    requester::resend(core, qp, what, *first, packets, now);
    if (!qp.can_send()) return false;
    // It could not be sent: what it is of has failed.
    if (board_of(qp, direction).get() == board && board->is_lost(*first)) return false;
  }
}

}  // namespace

void on_sent(QueuePair& qp, const SendWqe& wqe, uint32_t from, uint32_t to, Time now) {
  for (const Direction direction : {Direction::kOut, Direction::kIn}) {
    note_sent(qp, wqe, direction, from, to, now);
  }
}

void on_resent(QueuePair& qp, const SendWqe& wqe, requester::Resend what, uint32_t from,
               uint32_t to, Time now) {
  if (what == requester::Resend::kRequests) {
    // The other end answers no READ that came after the one that was lost until this one is there.
    if (Scoreboard* const responses = board_of(qp, Direction::kIn).get()) {
      responses->distrust_times();
    }
    return on_sent(qp, wqe, from, to, now);
  }
  note_sent(qp, wqe, Direction::kIn, from, to, now);
}

uint64_t on_passed(QueuePair& qp, Direction direction, Psn limit, Time now) {
  uint64_t known = 0;
  for (const Direction each : {Direction::kOut, Direction::kIn}) {
    Scoreboard* const board = board_of(qp, each).get();
    if (board == nullptr) continue;
    const uint64_t of_it = board->on_all_arrived_before(limit, now);
    if (each == direction) known = of_it;
  }
  return known;
}

void on_acknowledged(QueuePair& qp, Psn limit, Time now) {
  const Scoreboard* const board = board_of(qp, Direction::kOut).get();
  if (board == nullptr) return;
  for (Psn psn = board->next_awaited(board->begin()); psn.is_before(limit) && psn != board->end();
       psn = board->next_awaited(psn.next())) {
    arrived(qp, Direction::kOut, psn, now);
  }
}

void on_next_awaited(QueuePair& qp) {
  if (Scoreboard* const board = board_of(qp, Direction::kOut).get()) board->on_dropped(qp.send.una);
}

void on_early_response(Core& core, QueuePair& qp, Psn psn, Time now) {
  begin(qp, Direction::kIn, now);
  if (!arrived(qp, Direction::kIn, psn, now)) widen(core, qp, Direction::kIn, psn, now);
}

void on_missing_response(QueuePair& qp, Psn limit, Time now) {
  begin(qp, Direction::kIn, now);
  board_of(qp, Direction::kIn)->on_overtaken_before(limit);
}

void on_dropped_response(QueuePair& qp, Psn psn) {
  if (Scoreboard* const board = board_of(qp, Direction::kIn).get()) board->on_dropped(psn);
}

void on_duplicate_response(Core& core, QueuePair& qp, Psn psn, Time now) {
  widen(core, qp, Direction::kIn, psn, now);
}

bool on_extended_ack(Core& core, QueuePair& qp, Psn psn, std::span<const uint8_t> extension,
                     Time now) {
  const auto ack = wire::ExtendedAck::read(extension);
  if (!ack) return false;
  core.count(Counter::kExtendedAckReceived);
  flow::on_receive_room(qp, uint64_t{ack->room} * wire::ExtendedAck::kRoomUnit);
  if (ack->duplicate) widen(core, qp, Direction::kOut, *ack->duplicate, now);
  if (ack->words() == 0 || qp.send.una == qp.send.sent_end || qp.send.rnr_until != 0) return true;
  begin(qp, Direction::kOut, now);
  // It repeats what it said before; only what is not known is looked at.
  const Scoreboard& board = *board_of(qp, Direction::kOut);
  const Psn first = psn + 2;
  for (Psn at = board.next_awaited(first); at != board.end(); at = board.next_awaited(at.next())) {
    const int32_t bit = distance(first, at);
    if (bit < 0 || bit >= static_cast<int32_t>(ack->words() * 32)) break;
    if (ack->holds(static_cast<uint32_t>(bit))) arrived(qp, Direction::kOut, at, now);
  }
  return true;
}

void look(Core& core, QueuePair& qp, Time now) {
  SendSide& send = qp.send;
  send.look_at = kNever;
  for (const Direction direction : {Direction::kOut, Direction::kIn}) {
    Scoreboard* const board = board_of(qp, direction).get();
    if (board == nullptr) continue;
    flow::on_progress(core, qp, now);
    const auto sample = board->take_sample();
    if (sample && !(sample->again && flow::is_too_short(qp, direction, sample->round_trip))) {
      flow::on_round_trip(qp, direction, sample->round_trip, sample->delivered, now);
      send.rtt.add(sample->round_trip);
      send.probes = 0;
    }
    const Duration window = flow::reordering_window(qp, direction, board->take_lateness());
    const Scoreboard::Lost lost = board->find_lost(window, now);
    if (lost.packets != 0) flow::on_lost(qp, direction, lost.cost, lost.sent_at, now);
    send.look_at = std::min(send.look_at, board->next_look());
  }
}

bool repair(Core& core, QueuePair& qp, uint32_t& budget, Time now) {
  for (const Direction direction : {Direction::kOut, Direction::kIn}) {
    if (!repair(core, qp, direction, budget, now)) return false;
  }
  return true;
}

}  // namespace verbena::transport::selective
