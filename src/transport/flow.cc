// SPDX-License-Identifier: Apache-2.0
#include "transport/flow.h"

#include <algorithm>

namespace verbena::transport::flow {
namespace {

// What may leave at once though the pace is slower: a timer may come so late.
constexpr Duration kTimerSlack = kMillisecond;
constexpr Duration kSlackShare = 8;  // of a round trip, at most
// Of a round trip: how often a falling charge is looked at; and not more often than this.
constexpr Duration kLookShare = 8;
constexpr Duration kLeastLook = 10 * kMicrosecond;
constexpr uint64_t kRepairWindows = 4;  // unacknowledged while a loss is repaired, at most
constexpr uint32_t kSamplesPerRoundTrip = 16;

[[nodiscard]] WayShare& share_of(QueuePair& qp, Direction direction) {
  return qp.flow.shares[static_cast<size_t>(direction)];
}
[[nodiscard]] Way& way_of(const QueuePair& qp, Direction direction) {
  return qp.flow.destination->way(direction);
}

[[nodiscard]] const Scoreboard* board_of(const QueuePair& qp, Direction direction) {
  return qp.send.boards[static_cast<size_t>(direction)].get();
}

// Whether what follows a lost packet is kept at the other end, or here, and nobody knows how much
// of it has arrived.
[[nodiscard]] bool is_repairing(const QueuePair& qp, Direction direction) {
  if (board_of(qp, direction) != nullptr) return false;
  return qp.send.recovering && (qp.send.peer_holds || direction == Direction::kIn);
}

[[nodiscard]] uint64_t charge_of(const QueuePair& qp, Direction direction, WayShare& share,
                                 const Way& way, Time now) {
  if (const Scoreboard* const board = board_of(qp, direction)) {
    return share.unacked - std::min(share.unacked, board->away());
  }
  const Duration round_trip = way.control.round_trip();
  if (!is_repairing(qp, direction) || round_trip == 0) return share.unacked;
  const Duration passed = now - share.falls_since;
  if (passed >= round_trip) {
    share.falls_from = share.sent_since;
    share.sent_since = 0;
    share.falls_since = now;
    return std::min(share.unacked, share.falls_from);
  }
  const auto left = static_cast<uint64_t>(static_cast<double>(share.falls_from) *
                                          static_cast<double>(round_trip - passed) /
                                          static_cast<double>(round_trip));
  return std::min(share.unacked, left + share.sent_since);
}

void charge(QueuePair& qp, Direction direction, Time now) {
  WayShare& share = share_of(qp, direction);
  Way& way = way_of(qp, direction);
  const uint64_t amount = charge_of(qp, direction, share, way, now);
  way.in_flight += amount - share.charged;
  share.charged = amount;
}

void drop_charges(QueuePair& qp) {
  for (const Direction direction : {Direction::kOut, Direction::kIn}) {
    WayShare& share = share_of(qp, direction);
    way_of(qp, direction).in_flight -= share.charged;
    share = {};
    qp.send.boards[static_cast<size_t>(direction)].reset();
  }
  qp.send.look_at = kNever;
}

void leave_line(QueuePair& qp) {
  if (qp.flow.waits_at == nullptr) return;
  qp.flow.waits_at->waiting.remove(qp);
  qp.flow.waits_at = nullptr;
}

// `first`: before the others, also if it is in line already.
void wait_in_line(QueuePair& qp, Way& way, uint64_t wants, bool first) {
  if (qp.flow.waits_at != nullptr) {
    if (!first || way.waiting.first() == &qp) return;
    leave_line(qp);
  }
  qp.flow.wants = wants;
  qp.flow.waits_at = &way;
  if (first) {
    way.waiting.push_front(qp);
  } else {
    way.waiting.push_back(qp);
  }
}

void lose_turn(QueuePair& qp) {
  qp.flow.has_turn = false;
  if (qp.flow.turn_at == nullptr) return;
  --qp.flow.turn_at->turns;
  qp.flow.turn_at = nullptr;
}

// How far the pace may be ahead of time.
[[nodiscard]] Duration burst(const Way& way) {
  const Duration slack = std::min(kTimerSlack, way.control.round_trip() / kSlackShare);
  const uint64_t packets = kTurnPackets * (uint64_t{1024} + kPacketOverhead);
  return std::max(slack, way.control.time_of(std::min(packets, way.control.window() / 2)));
}

// When a packet may leave, and when a turn may begin: not for one packet, or each would need a
// timer.
[[nodiscard]] Time pace_allows_at(const Way& way) { return way.paced_until - burst(way); }
[[nodiscard]] Time turn_begins_at(const Way& way) { return way.paced_until - burst(way) / 2; }

void pace(Way& way, uint64_t cost, Time now) {
  way.paced_until = std::max(way.paced_until, now) + way.control.time_of(cost);
}

void wake_at(Core& core, Destination& destination, Time when) {
  core.destinations.timers().set(destination, std::min(destination.timer.deadline, when));
}

// A charge falls meanwhile.
void look_again(Core& core, Destination& destination, const Way& way, Time now) {
  const Duration round_trip = way.control.round_trip();
  if (round_trip == 0) return;
  wake_at(core, destination, now + std::max(round_trip / kLookShare, kLeastLook));
}

// A turn is worth while if it can send so much.
[[nodiscard]] uint64_t least_turn(const Way& way) {
  constexpr uint64_t kTurnsPerWindow = 16;
  constexpr uint64_t kMost = kTurnPackets * (uint64_t{1024} + kPacketOverhead);
  return std::min(kMost, way.control.window() / kTurnsPerWindow);
}

[[nodiscard]] bool has_room(const Way& way, uint64_t cost) {
  return way.in_flight == 0 || way.in_flight + cost <= way.control.window();
}

// Turns for as many as may find room.
void give_turns(Core& core, Destination& destination, Way& way, Time now) {
  if (way.waiting.empty()) return;
  if (turn_begins_at(way) > now) return wake_at(core, destination, turn_begins_at(way));
  uint64_t taken = 0;
  while (const QueuePair* const first = way.waiting.first()) {
    if (first->flow.wants != 0 && !has_room(way, taken + first->flow.wants)) return;
    QueuePair& qp = *way.waiting.pop_front();
    qp.flow.waits_at = nullptr;
    qp.flow.has_turn = true;
    qp.flow.turn_at = &way;
    ++way.turns;
    core.make_runnable(qp);
    taken += std::max(qp.flow.wants, kTurnPackets * (uint64_t{qp.mtu} + kPacketOverhead));
  }
}

void give_turns(Core& core, Destination& destination, Time now) {
  for (Way& way : destination.ways) give_turns(core, destination, way, now);
}

// `first`: before those that wait already.
[[nodiscard]] bool admit(Core& core, QueuePair& qp, Direction direction, uint64_t cost, bool first,
                         Time now) {
  Way& way = way_of(qp, direction);
  if ((!way.waiting.empty() || way.turns != 0) && !qp.flow.has_turn) {
    wait_in_line(qp, way, cost, first);
    return false;
  }
  if ((qp.flow.has_turn ? pace_allows_at(way) : turn_begins_at(way)) > now) {
    wait_in_line(qp, way, cost, first);
    wake_at(core, *qp.flow.destination, turn_begins_at(way));
    return false;
  }
  if (qp.send.recovering) charge(qp, direction, now);
  const bool repairs = is_repairing(qp, direction);
  // It goes on when its peer has answered.
  if (repairs && share_of(qp, direction).unacked > kRepairWindows * way.control.window()) {
    return false;
  }
  if (!has_room(way, cost)) {
    wait_in_line(qp, way, cost, first);
    if (repairs) look_again(core, *qp.flow.destination, way, now);
    return false;
  }
  qp.flow.has_turn = true;
  return true;
}

}  // namespace

void join(Core& core, QueuePair& qp) {
  leave(core, qp);
  const FlightLimits& limits = core.tuning.flight;
  qp.flow.destination = &core.destinations.join(
      qp.attr.path.destination,
      CongestionWindow(limits.initial_bytes, limits.max_bytes, core.tuning.receiver_bytes));
}

void stop(Core& core, QueuePair& qp) {
  if (!applies(qp)) return;
  leave_line(qp);
  drop_charges(qp);
  stop_timing(qp);
  lose_turn(qp);
  // What it had out no longer stands in the way of others; they may wait for nothing else.
  for (Way& way : qp.flow.destination->ways) {
    if (!way.waiting.empty()) wake_at(core, *qp.flow.destination, 0);
  }
}

void leave(Core& core, QueuePair& qp) {
  if (!applies(qp)) return;
  stop(core, qp);
  if (qp.flow.listed_repairing) std::erase(qp.flow.destination->repairing, &qp);
  core.destinations.leave(*qp.flow.destination);
  qp.flow = {};
}

bool waits_with_nothing_out(const QueuePair& qp) {
  return qp.flow.waits_at != nullptr && qp.flow.shares[0].unacked + qp.flow.shares[1].unacked == 0;
}

bool admits(Core& core, QueuePair& qp, Direction direction, uint64_t cost, Time now) {
  // What is sent again goes before anything new.
  const bool first = qp.flow.has_turn || qp.cursor_psn().is_before(qp.send.sent_end);
  // Who begins waits until there is room for a few, or each packet would have an ACK of its own.
  if (!qp.flow.has_turn) cost = std::max(cost, least_turn(way_of(qp, direction)));
  return admit(core, qp, direction, cost, first, now);
}

bool admits_repair(Core& core, QueuePair& qp, Direction direction, uint64_t cost, Time now) {
  // A request that charges nothing here waits for room all the same, if there is none.
  return admit(core, qp, direction, std::max<uint64_t>(cost, 1), /*first=*/true, now);
}

uint64_t room(const QueuePair& qp, Direction direction, Time now) {
  const Way& way = way_of(qp, direction);
  const uint64_t window = way.control.window();
  const uint64_t by_window = window - std::min(way.in_flight, window);
  const Duration ahead = now - pace_allows_at(way);
  const Duration for_window = way.control.time_of(window);
  if (for_window == 0) return by_window;
  const double by_pace = static_cast<double>(std::max<Duration>(ahead, 0)) /
                         static_cast<double>(for_window) * static_cast<double>(window);
  return std::min(by_window, static_cast<uint64_t>(by_pace));
}

bool closes_behind(const QueuePair& qp, Direction direction, uint64_t cost) {
  return !has_room(way_of(qp, direction), cost + qp.mtu + kPacketOverhead);
}

uint32_t ack_every(const QueuePair& qp, uint32_t most) {
  constexpr uint64_t kAcksPerWindow = 8;
  const uint64_t packets =
      way_of(qp, Direction::kOut).control.window() / (qp.mtu + kPacketOverhead) / kAcksPerWindow;
  return static_cast<uint32_t>(std::clamp<uint64_t>(packets, 1, most));
}

void on_sent(QueuePair& qp, Direction direction, uint64_t cost, Time now) {
  WayShare& share = share_of(qp, direction);
  Way& way = way_of(qp, direction);
  share.unacked += cost;
  share.sent_since += cost;
  share.charged += cost;
  way.in_flight += cost;
  pace(way, cost, now);
}

void on_resent(QueuePair& qp, Direction direction, uint64_t cost, Time now) {
  pace(way_of(qp, direction), cost, now);
}

bool admits_resend(Core& core, QueuePair& qp, Direction direction, Time now) {
  Way& way = way_of(qp, direction);
  if (pace_allows_at(way) <= now) return true;
  wait_in_line(qp, way, 0, true);
  wake_at(core, *qp.flow.destination, turn_begins_at(way));
  return false;
}

void time_round_trip(QueuePair& qp, Direction direction, wire::Psn psn, Time now) {
  FlowSide& flow = qp.flow;
  const Way& way = way_of(qp, direction);
  if (flow.timed_count == flow.timed.size()) return;
  if (flow.timed_count != 0) {
    const TimedPacket& last =
        flow.timed[(flow.timed_first + flow.timed_count - 1) % flow.timed.size()];
    if (now < last.at + way.control.round_trip() / kSamplesPerRoundTrip) return;
  }
  flow.timed[(flow.timed_first + flow.timed_count++) % flow.timed.size()] = {psn, direction, now,
                                                                             way.delivered};
}

void stop_timing(QueuePair& qp) { qp.flow.timed_count = 0; }

void stop_timing_oldest(QueuePair& qp) {
  FlowSide& flow = qp.flow;
  if (flow.timed_count == 0 || flow.timed[flow.timed_first].psn != qp.send.una) return;
  flow.timed_first = (flow.timed_first + 1) % static_cast<uint32_t>(flow.timed.size());
  --flow.timed_count;
}

Duration answer_time(const QueuePair& qp) {
  const auto& ways = qp.flow.destination->ways;
  return std::max(ways[0].control.answer_time(), ways[1].control.answer_time());
}

void end_turn(Core& core, QueuePair& qp, Time now) {
  lose_turn(qp);
  give_turns(core, *qp.flow.destination, now);
}

void on_acked(QueuePair& qp, Direction direction, uint64_t cost, uint64_t known) {
  WayShare& share = share_of(qp, direction);
  share.unacked -= std::min(share.unacked, cost);
  share.acked += cost - std::min(cost, known);
}

void on_arrived(QueuePair& qp, Direction direction, uint64_t cost) {
  share_of(qp, direction).acked += cost;
}

void on_progress(Core& core, QueuePair& qp, Time now) {
  FlowSide& flow = qp.flow;
  for (const Direction direction : {Direction::kOut, Direction::kIn}) {
    WayShare& share = share_of(qp, direction);
    if (share.acked == 0) continue;
    Way& way = way_of(qp, direction);
    const bool limited = !way.waiting.empty() || 4 * way.in_flight > 3 * way.control.window();
    way.delivered += share.acked;
    const uint64_t acked = std::exchange(share.acked, 0);
    charge(qp, direction, now);
    way.control.on_delivered(acked, limited, now);
  }
  while (flow.timed_count != 0) {
    const TimedPacket timed = flow.timed[flow.timed_first];
    if (!timed.psn.is_before(qp.send.una)) break;
    flow.timed_first = (flow.timed_first + 1) % static_cast<uint32_t>(flow.timed.size());
    --flow.timed_count;
    Way& way = way_of(qp, timed.direction);
    way.control.on_round_trip(now - timed.at, way.delivered - timed.delivered, now);
  }
  give_turns(core, *flow.destination, now);
}

void on_loss(Core& core, QueuePair& qp, Direction direction, uint64_t cost, bool renewed,
             Time now) {
  Way& way = way_of(qp, direction);
  WayShare& share = share_of(qp, direction);
  if (!qp.flow.listed_repairing) {
    qp.flow.listed_repairing = true;
    qp.flow.destination->repairing.push_back(&qp);
  }
  if (!qp.send.recovering) {
    share.falls_from = share.charged;
    share.falls_since = now;
    share.sent_since = 0;
  }
  stop_timing(qp);
  way.control.on_loss(cost, renewed, now);
  if (!way.waiting.empty()) look_again(core, *qp.flow.destination, way, now);
}

void on_lost(QueuePair& qp, Direction direction, uint64_t cost, Time sent_at, Time now) {
  Way& way = way_of(qp, direction);
  way.reordering.on_loss(way.control.round_trip(), now);
  // Those that left before the window was reduced were lost for the same reason.
  way.control.on_loss(cost, sent_at > way.control.reduced_at(), now,
                      CongestionWindow::Repair::kWhatWasLost);
  charge(qp, direction, now);
}

void on_needless_repair(QueuePair& qp, Direction direction, Time now) {
  Way& way = way_of(qp, direction);
  way.reordering.on_needless(way.control.round_trip(), now);
  way.control.on_needless_repair(qp.mtu + kPacketOverhead, now);
}

Duration reordering_window(QueuePair& qp, Direction direction, Duration lateness) {
  Way& way = way_of(qp, direction);
  // What others learnt of the way, or what the queue pair knows itself.
  Duration least = way.control.least_round_trip();
  if (least == 0) least = qp.send.rtt.smoothed;
  way.reordering.on_late(lateness, least);
  return way.reordering.window(least, std::max(way.control.round_trip(), qp.send.rtt.smoothed));
}

void on_round_trip(QueuePair& qp, Direction direction, Duration round_trip, uint32_t delivered,
                   Time now) {
  Way& way = way_of(qp, direction);
  const uint32_t since = static_cast<uint32_t>(way.delivered) - delivered;
  way.control.on_round_trip(round_trip, since, now);
}

Duration round_trip(const QueuePair& qp, Direction direction) {
  return way_of(qp, direction).control.round_trip();
}

bool is_too_short(const QueuePair& qp, Direction direction, Duration round_trip) {
  const Duration least = way_of(qp, direction).control.least_round_trip();
  return least == 0 || round_trip < least;
}

uint64_t delivered(const QueuePair& qp, Direction direction) {
  return way_of(qp, direction).delivered;
}

void recharge(QueuePair& qp, Direction direction, Time now) { charge(qp, direction, now); }

void on_receive_room(QueuePair& qp, uint64_t bytes) {
  if (bytes != 0) way_of(qp, Direction::kOut).control.set_room(bytes);
}

void on_heard(Core& core, QueuePair& qp, Time now) {
  core.receive_room.on_heard(qp.flow.destination->heard, now);
  const uint64_t share = core.receive_room.share();
  if (share != 0) way_of(qp, Direction::kIn).control.set_room(share);
}

void on_go_back(QueuePair& qp) {
  drop_charges(qp);
  stop_timing(qp);
}

void on_timeout(QueuePair& qp, Time now) {
  for (const Direction direction : {Direction::kOut, Direction::kIn}) {
    if (share_of(qp, direction).unacked != 0) way_of(qp, direction).control.on_timeout(now);
  }
}

void on_mark(QueuePair& qp, Direction direction, Time now) {
  way_of(qp, direction).control.on_mark(now);
}

void on_timer(Core& core, Destination& destination, Time now) {
  bool repairing = false;
  std::erase_if(destination.repairing, [](QueuePair* const qp) {
    qp->flow.listed_repairing = qp->send.recovering;
    return !qp->send.recovering;
  });
  for (QueuePair* const qp : destination.repairing) {
    for (const Direction direction : {Direction::kOut, Direction::kIn}) {
      charge(*qp, direction, now);
      repairing = repairing || is_repairing(*qp, direction);
    }
  }
  give_turns(core, destination, now);
  for (const Way& way : destination.ways) {
    if (repairing && !way.waiting.empty()) {
      look_again(core, destination, way, now);
    }
  }
}

namespace {

// That reliable queue pairs use now; nullptr: none.
[[nodiscard]] Way* way_in_use(const Core& core, const wire::Gid& to) {
  if (core.destinations.size() == 0) return nullptr;
  Destination* const destination = core.destinations.find(to);
  if (destination == nullptr) return nullptr;
  Way& way = destination->way(Direction::kOut);
  return way.in_flight == 0 ? nullptr : &way;
}

}  // namespace

uint32_t open_turn(Core& core, QueuePair& qp, const wire::Gid& to, Time now) {
  const Way* const way = way_in_use(core, to);
  const Time by_rate = core.open_rate.allows_at(to, now);
  const Time when = std::max(by_rate, way == nullptr ? 0 : pace_allows_at(*way));
  if (when > now) {
    core.timers.set(qp, when);
    return 0;
  }
  return way == nullptr && by_rate == 0 ? core.tuning.quantum : kTurnPackets;
}

void on_open_sent(Core& core, const Path& path, uint64_t cost, Time now) {
  core.open_rate.on_sent(path.destination, path.has_ect(), cost, now);
  if (Way* const way = way_in_use(core, path.destination)) pace(*way, cost, now);
}

}  // namespace verbena::transport::flow
