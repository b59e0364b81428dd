// SPDX-License-Identifier: Apache-2.0
#include "transport/requester.h"

#include <algorithm>

#include "transport/completer.h"
#include "transport/datagram.h"
#include "transport/flow.h"
#include "transport/gather_run.h"
#include "transport/recovery.h"
#include "transport/request_packets.h"
#include "transport/selective.h"

namespace verbena::transport::requester {
namespace {

using wire::Psn;

// What move() finds wrong in the signatures that it passes stops a pipelined queue pair.
template <typename Move>
[[nodiscard]] auto watching_signatures(Core& core, QueuePair& qp, Move&& move) {
  const uint64_t errors = core.memory.signature_errors();
  auto moved = move();
  if (core.memory.signature_errors() != errors) qp.note_signature_error();
  return moved;
}

// Local operations take effect when the cursor reaches them; they complete in order with the rest.
[[nodiscard]] WcStatus execute_local(Core& core, QueuePair& qp, const SendWqe& wqe) {
  if (wqe.cancelled) return WcStatus::kSuccess;
  const uint64_t number = qp.send.cursor;
  const auto unless = [](memory::Fault fault, WcStatus otherwise) {
    return fault == memory::Fault::kNone ? WcStatus::kSuccess : otherwise;
  };
  switch (wqe.op) {
    case SendOp::kLocalInvalidate:
      return unless(core.memory.invalidate_local(RKey(wqe.imm_or_invalidate), qp.pd),
                    WcStatus::kMwBind);
    case SendOp::kConfigureKey: {
      const ConfigTarget& target = qp.sq.config(number);
      return unless(core.memory.configure_key(target.key, qp.pd, target.config),
                    WcStatus::kLocalQpOperation);
    }
    case SendOp::kCopy: {
      const CopyTarget& target = qp.sq.copy(number);
      const memory::Fault fault = watching_signatures(
          core, qp, [&] { return core.memory.copy(qp.pd, target.to, target.from); });
      return unless(fault, WcStatus::kLocalProtection);
    }
    default: break;
  }
  const BindTarget& target = qp.sq.bind(number);
  const auto bound = core.memory.bind_window(target.window, {qp.pd, qp.qpn}, target.bind);
  return bound.has_value() ? WcStatus::kSuccess : WcStatus::kMwBind;
}

// A key does not change under a request that may have to be sent again.
[[nodiscard]] bool key_is_in_use(const Core& core, const QueuePair& qp, const SendWqe& wqe) {
  const uint64_t number = qp.send.cursor;
  const bool configures = wqe.op == SendOp::kConfigureKey;
  if (wqe.cancelled || (!configures && wqe.op != SendOp::kLocalInvalidate)) return false;
  const uint32_t key = configures ? qp.sq.config(number).key.value : wqe.imm_or_invalidate;
  return qp.sq.any_entry(qp.sq.head(), number, [&](const memory::Sge& sge) {
    return core.memory.may_lead_to(sge.lkey, key);
  });
}

// A signature was found wrong: nothing more is started until the program has looked.
void stop_for_signature(QueuePair& qp) {
  if (!qp.send.signature_stop || qp.state() != QpState::kRts) return;
  qp.send.signature_stop = false;
  qp.send.answer_awaited = true;
  qp.set_state(QpState::kSqd);
  qp.send.drained_notified = false;
}

// Its list is written, not read. As on a ConnectX and rxe, it is looked at when the answer comes:
// if the peer refuses the request, that is the error, and an atomic is carried out in any case.
[[nodiscard]] bool is_answered_with_data(const SendWqe& wqe) {
  return wqe.wants_response() && wqe.op != SendOp::kAtomicWrite;
}

// Its list is looked at as a whole when its only packet is made: once is enough.
[[nodiscard]] bool is_checked_when_sent(const QueuePair& qp, const SendWqe& wqe) {
  return wqe.entries == 1 && wqe.length != 0 && wqe.length <= qp.mtu;
}

// Gives the entry at the cursor its PSNs, or says that it must wait.
[[nodiscard]] bool start(Core& core, QueuePair& qp, SendWqe& wqe) {
  stop_for_signature(qp);
  if (qp.state() != QpState::kRts) return false;  // SQD starts nothing new
  if ((wqe.flags & kFence) != 0 && qp.send.rd_outstanding > 0) return false;
  qp.send.answer_awaited = key_is_in_use(core, qp, wqe);
  if (qp.send.answer_awaited) return false;
  wqe.started = true;
  wqe.first_psn = qp.send.assign;
  if (wqe.is_local()) {
    wqe.packets = 0;
    wqe.local_status = execute_local(core, qp, wqe);
    return true;
  }
  if (wqe.wants_response() && qp.attr.max_rd_atomic == 0) {
    // SQD took the right away after it was posted: it would wait for ever.
    wqe.local_status = WcStatus::kLocalQpOperation;
  } else if ((wqe.flags & kInline) == 0 && !is_answered_with_data(wqe) &&
             !is_checked_when_sent(qp, wqe)) {
    if (core.memory.check_local(qp.pd, qp.sq.list(qp.send.cursor), false) != memory::Fault::kNone) {
      wqe.local_status = WcStatus::kLocalProtection;
    }
  }
  wqe.packets = qp.type == QpType::kUd ? 1 : packets_for(wqe.length, qp.mtu);
  if (wqe.op == SendOp::kRead) wqe.segment_packets = read_segment_packets(qp, wqe.length);
  qp.send.assign = qp.send.assign + wqe.packets;
  return true;
}

[[nodiscard]] bool window_allows(const QueuePair& qp, uint64_t more, uint32_t packets) {
  const Window& window = qp.send.window;
  const uint64_t in_flight = window.sent_cost - window.acked_cost;
  if (in_flight == 0) return true;  // one packet, or one READ segment, may always be out
  const auto out = static_cast<uint32_t>(distance(qp.send.una, qp.cursor_psn()));
  return in_flight + more <= window.allowed && out + packets <= window.limits.max_packets;
}

[[nodiscard]] uint32_t end_of_next(const QueuePair& qp, const SendWqe& wqe) {
  const uint32_t from = qp.send.cursor_packet;
  return wqe.op == SendOp::kRead ? segment_end(wqe, from) : from + 1;
}

// Whether the peer lets what stands at the cursor be sent.
[[nodiscard]] bool may_send(const QueuePair& qp, const SendWqe& wqe) {
  if (wqe.wants_response() && qp.send.rd_outstanding >= qp.attr.max_rd_atomic) return false;
  const uint32_t from = qp.send.cursor_packet;
  const uint32_t to = end_of_next(qp, wqe);
  return window_allows(qp, cost(qp, wqe, from, to), to - from);
}

// A small message whose completion nobody is told of: a few of them share an ACK, as on a NIC
// (mlx5's log_ack_req_freq), unless its place in the send queue is wanted soon.
[[nodiscard]] bool can_wait_for_ack(const QueuePair& qp, const SendWqe& wqe) {
  constexpr uint32_t kMessagesPerAck = 8;
  return wqe.packets == 1 && !qp.signal_all && (wqe.flags & kSignaled) == 0 &&
         qp.send.unrequested + 1 < kMessagesPerAck && 2 * qp.sq.size() <= qp.sq.max_entries();
}

[[nodiscard]] uint32_t ack_every(const QueuePair& qp) {
  const uint32_t most = qp.send.window.limits.ack_every;
  return flow::applies(qp) ? flow::ack_every(qp, most) : most;
}

// Whether the packet about to go must ask for an acknowledgement: at a message's end, every so
// often within one, and when the window closes behind it (nothing else would ask before the probe).
[[nodiscard]] bool wants_ack(const QueuePair& qp, const SendWqe& wqe, uint32_t packet,
                             uint64_t this_cost, bool last_of_turn) {
  if (qp.send.unrequested + 1 >= ack_every(qp)) return true;
  if (packet + 1 == wqe.packets && !can_wait_for_ack(qp, wqe)) return true;
  const uint64_t next_cost = uint64_t{qp.mtu} + kPacketOverhead;
  if (!window_allows(qp, this_cost + next_cost, 2)) return true;
  return flow::applies(qp) && (last_of_turn || flow::closes_behind(qp, Direction::kOut, this_cost));
}

void time_round_trip(QueuePair& qp, Direction direction, Psn first, Psn psn, Time now) {
  if (selective::decides(qp, direction)) return;  // it times each packet
  // Of responses the first: the last comes as much later as all of them take.
  if (flow::applies(qp)) {
    flow::time_round_trip(qp, direction, direction == Direction::kIn ? first : psn, now);
  }
  if (qp.send.rtt.timing) return;
  qp.send.rtt.timing = true;
  qp.send.rtt.timed_psn = psn;
  qp.send.rtt.timed_at = now;
  qp.send.rtt.timed_repair = false;
}

// Whether the way to another host has room for what stands at the cursor.
[[nodiscard]] bool is_admitted(Core& core, QueuePair& qp, const SendWqe& wqe, Time now) {
  const uint64_t weight = cost(qp, wqe, qp.send.cursor_packet, end_of_next(qp, wqe));
  return flow::admits(core, qp, flow::direction_of(wqe), weight, now);
}

enum class Sent : uint8_t { kYes, kMustWait, kFailed };

// Sends what stands at the cursor and moves it on.
[[nodiscard]] Sent send_at_cursor(Core& core, QueuePair& qp, SendWqe& wqe, bool last_of_turn,
                                  Time now) {
  SendSide& send = qp.send;
  const uint32_t from = send.cursor_packet;
  const uint32_t to = end_of_next(qp, wqe);
  const uint64_t weight = cost(qp, wqe, from, to);
  if (!window_allows(qp, weight, to - from)) return Sent::kMustWait;
  const Psn psn = wqe.first_psn + from;
  const bool again = psn.is_before(send.sent_end);

  bool ack = true;
  if (wqe.wants_response()) {
    if (send.rd_outstanding >= qp.attr.max_rd_atomic) return Sent::kMustWait;
    if (wqe.op == SendOp::kRead) {
      request_packets::send_read_request(core, qp, wqe, from, to);
    } else if (wqe.op == SendOp::kAtomicWrite) {
      if (!request_packets::send_data(core, qp, send.cursor, from, true)) return Sent::kFailed;
    } else {
      request_packets::send_atomic(core, qp, wqe);
    }
    ++send.rd_outstanding;
  } else {
    ack = wants_ack(qp, wqe, from, weight, last_of_turn);
    const bool sent = watching_signatures(
        core, qp, [&] { return request_packets::send_data(core, qp, send.cursor, from, ack); });
    if (!sent) return Sent::kFailed;
  }

  send.unrequested = ack ? 0 : send.unrequested + 1;
  if (ack) send.requested_end = wqe.first_psn + to;
  send.window.sent_cost += weight;
  if (flow::applies(qp)) {
    flow::on_sent(qp, flow::direction_of(wqe), weight, now);
    selective::on_sent(qp, wqe, from, to, now);
  }
  const Psn end = wqe.first_psn + to;
  if (again) note_resent(send, end, core, 1);
  if (end.is_after(send.sent_end)) {
    send.sent_end = end;
    if (ack && !again) time_round_trip(qp, flow::direction_of(wqe), psn, end.previous(), now);
  }
  send.cursor_packet = to;
  if (to == wqe.packets) {
    ++send.cursor;
    send.cursor_packet = 0;
  }
  return Sent::kYes;
}

// The BTH of a run that begins with packet `from` of an entry.
[[nodiscard]] wire::Bth run_header(const QueuePair& qp, const SendWqe& wqe, uint32_t from) {
  wire::Bth bth;
  bth.opcode = wire::opcode_byte(qp.service(), request_packets::opcode_of(wqe, from));
  bth.dest_qp = qp.attr.dest_qpn;
  bth.psn = wqe.first_psn + from;
  bth.reserved7 = selective::announcement(qp);
  return bth;
}

// Up to `most` packets from the cursor on that can leave as one run: from the middle of a message.
// Less than two: none.
[[nodiscard]] OutRun run_at_cursor(Core& core, QueuePair& qp, const SendWqe& wqe, uint32_t most) {
  const uint32_t from = qp.send.cursor_packet;
  if (from == 0 || (wqe.flags & kInline) != 0 || wqe.wants_response()) return {};
  if (qp.type == QpType::kXrcSend) return {};  // more than a BTH in front of each payload
  most = std::min(most, wqe.packets - 1 - from);
  if (most < 2) return {};
  const uint32_t packet_bytes = wire::Bth::kBytes + qp.mtu + wire::kIcrcBytes;
  most = core.link.room_for(qp.attr.path, qp.attr.dest_qpn, packet_bytes, most);
  const bool again = (wqe.first_psn + from).is_before(qp.send.sent_end);
  const auto list = qp.sq.list(qp.send.cursor);
  const uint64_t offset = uint64_t{from} * qp.mtu;
  return watching_signatures(core, qp, [&] {
    return gather_run(
        core.run_room, qp.mtu, most,
        [&](uint64_t n) { return core.memory.stretch(qp.pd, list, offset, n, false); },
        [&](uint32_t n, memory::Pieces& pieces) {
          return core.memory.gather(qp.pd, list, offset, n, pieces, again);
        });
  });
}

// How many packets the window has room for; 0 too when it must be looked at more closely.
[[nodiscard]] uint32_t window_room(const QueuePair& qp, Time now) {
  const Window& window = qp.send.window;
  const uint64_t in_flight = window.sent_cost - window.acked_cost;
  const auto out = static_cast<uint32_t>(distance(qp.send.una, qp.cursor_psn()));
  if (in_flight >= window.allowed || out >= window.limits.max_packets) return 0;
  uint64_t bytes = window.allowed - in_flight;
  if (flow::applies(qp)) bytes = std::min(bytes, flow::room(qp, Direction::kOut, now));
  const uint64_t by_cost = bytes / (qp.mtu + kPacketOverhead);
  return static_cast<uint32_t>(std::min<uint64_t>(by_cost, window.limits.max_packets - out));
}

// Where a message is cut in two: before this packet, what is made of it so far leaves at once. For
// a peer that has nothing else to do, so that it works on the one part while we make the other.
// 0: nowhere.
[[nodiscard]] uint32_t cut_of(const QueuePair& qp, const SendWqe& wqe) {
  constexpr uint32_t kHeadBytes = 32 * 1024;
  const uint32_t head = kHeadBytes / qp.mtu;
  const bool alone = qp.send.una == wqe.first_psn;
  return alone && wqe.packets >= head + head / 2 && !wqe.wants_response() ? head : 0;
}

// Sends a run from the cursor on, if there is one; gives the number of its packets.
[[nodiscard]] uint32_t send_run_at_cursor(Core& core, QueuePair& qp, const SendWqe& wqe,
                                          uint32_t budget, bool others_wait, Time now) {
  SendSide& send = qp.send;
  const uint32_t from = send.cursor_packet;
  if (from == 0 || from + 2 >= wqe.packets) return 0;
  const Psn psn = wqe.first_psn + from;
  // An ACK is asked for by the last one alone.
  const uint32_t every = ack_every(qp);
  uint32_t most =
      std::min({budget, window_room(qp, now), every - std::min(send.unrequested, every)});
  const bool again = psn.is_before(send.sent_end);
  if (again) most = std::min(most, static_cast<uint32_t>(distance(psn, send.sent_end)));
  if (const uint32_t cut = cut_of(qp, wqe); from < cut) most = std::min(most, cut - from);
  OutRun run = run_at_cursor(core, qp, wqe, most);
  const uint32_t packets = run.packets;
  if (packets < 2) return 0;
  const bool last_of_turn = others_wait && packets == budget;
  const uint64_t weight = uint64_t{qp.mtu} + kPacketOverhead;
  send.window.sent_cost += (packets - 1) * weight;
  send.unrequested += packets - 1;
  send.cursor_packet += packets - 1;
  wire::Bth bth = run_header(qp, wqe, from);
  bth.ack_request = wants_ack(qp, wqe, send.cursor_packet, packets * weight, last_of_turn);
  run.path = &qp.attr.path;
  run.first = bth;
  core.link.send_run(run);
  core.count(Counter::kPacketsSent, packets);
  core.count(Counter::kRunsSent);
  send.window.sent_cost += weight;
  if (flow::applies(qp)) {
    flow::on_sent(qp, Direction::kOut, packets * weight, now);
    selective::on_sent(qp, wqe, from, from + packets, now);
  }
  send.unrequested = bth.ack_request ? 0 : send.unrequested + 1;
  if (bth.ack_request) send.requested_end = psn + packets;
  ++send.cursor_packet;
  if (again) {
    note_resent(send, psn + packets, core, packets);
  } else {
    send.sent_end = psn + packets;
    if (bth.ack_request) {
      time_round_trip(qp, Direction::kOut, psn, send.sent_end.previous(), now);
    }
  }
  return packets;
}

void refuse(Core& core, QueuePair& qp) {
  core.crowded = true;
  core.make_runnable(qp);
}

void pump_reliable(Core& core, QueuePair& qp, Time now) {
  SendSide& send = qp.send;
  if (send.rnr_until != 0) return;
  if (!go_on_with_resend(core, qp, now)) return;
  const bool others_wait = flow::applies(qp) && qp.flow.has_turn;
  const uint32_t turn =
      others_wait ? std::min(core.tuning.quantum, flow::kTurnPackets) : core.tuning.quantum;
  uint32_t budget = turn;
  send.refused = false;
  const bool repaired = !flow::applies(qp) || selective::repair(core, qp, budget, now);
  while (repaired && send.cursor < qp.sq.tail()) {
    SendWqe& wqe = qp.sq.at(send.cursor);
    if (!wqe.started && !start(core, qp, wqe)) break;
    if (wqe.local_status != WcStatus::kSuccess) break;
    if (wqe.is_local()) {
      ++send.cursor;
      continue;
    }
    if (budget == 0) {
      core.make_runnable(qp);
      break;
    }
    if (!core.link.has_room_towards(qp.attr.path, qp.attr.dest_qpn)) {
      send.refused = may_send(qp, wqe);  // or else it waits for its peer, not for room
      if (send.refused) refuse(core, qp);
      break;
    }
    if (flow::applies(qp) && !(may_send(qp, wqe) && is_admitted(core, qp, wqe, now))) break;
    if (send.cursor_packet != 0 && send.cursor_packet == cut_of(qp, wqe)) core.link.cut();
    if (const uint32_t run = send_run_at_cursor(core, qp, wqe, budget, others_wait, now);
        run != 0) {
      budget -= run;
      continue;
    }
    const Sent sent = send_at_cursor(core, qp, wqe, others_wait && budget == 1, now);
    if (sent == Sent::kFailed) wqe.local_status = WcStatus::kLocalProtection;
    if (sent != Sent::kYes) break;
    --budget;
  }
  if (!qp.can_send()) return;
  stop_for_signature(qp);
  if (budget < turn) qp.served = true;
  // Local operations, and entries that failed here, end when everything before them has.
  completer::retire_local(core, qp, now);
  if (qp.can_send()) recovery::arm(core, qp, now);
}

// UC and UD: an entry is complete when its last packet is with the link.
void pump_unreliable(Core& core, QueuePair& qp, Time now) {
  SendSide& send = qp.send;
  uint32_t budget = core.tuning.quantum;
  while (send.cursor < qp.sq.tail() && qp.can_send()) {
    SendWqe& wqe = qp.sq.at(send.cursor);
    if (!wqe.started && !start(core, qp, wqe)) break;
    if (!wqe.is_local() && wqe.local_status == WcStatus::kSuccess) {
      const bool ud = qp.type == QpType::kUd;
      const Path& path = ud ? qp.sq.datagram(send.cursor).path : qp.attr.path;
      const Qpn target = ud ? qp.sq.datagram(send.cursor).qpn : qp.attr.dest_qpn;
      if (budget == 0) {
        core.make_runnable(qp);
        break;
      }
      if (!core.link.has_room_towards(path, target)) {
        refuse(core, qp);
        break;
      }
      const uint32_t turn = flow::open_turn(core, qp, path.destination, now);
      if (turn == 0) break;
      if (!ud) {
        OutRun run = run_at_cursor(core, qp, wqe, std::min(budget, turn));
        if (run.packets >= 2) {
          run.path = &path;
          run.first = run_header(qp, wqe, send.cursor_packet);
          core.link.send_run(run);
          core.count(Counter::kPacketsSent, run.packets);
          core.count(Counter::kRunsSent);
          flow::on_open_sent(core, path, run.packets * (uint64_t{qp.mtu} + kPacketOverhead), now);
          send.cursor_packet += run.packets;
          budget -= run.packets;
          continue;
        }
      }
      --budget;
      const uint64_t weight = ud ? wqe.length + kPacketOverhead
                                 : cost(qp, wqe, send.cursor_packet, send.cursor_packet + 1);
      flow::on_open_sent(core, path, weight, now);
      const bool sent = watching_signatures(core, qp, [&] {
        return ud ? datagram::send(core, qp, send.cursor)
                  : request_packets::send_data(core, qp, send.cursor, send.cursor_packet, false);
      });
      if (!sent) {
        wqe.local_status = WcStatus::kLocalProtection;
      } else if (++send.cursor_packet < wqe.packets) {
        continue;
      }
    }
    if (wqe.local_status != WcStatus::kSuccess) {
      completer::fail_head(core, qp, wqe.local_status);
      return;
    }
    send.sent_end = send.una = send.assign;
    ++send.cursor;
    send.cursor_packet = 0;
    completer::complete_head(core, qp);
  }
  stop_for_signature(qp);
  if (budget < core.tuning.quantum) qp.served = true;
  completer::notify_if_drained(core, qp);
}

}  // namespace

void pump(Core& core, QueuePair& qp, Time now) {
  if (!core.crowded) return take_turn(core, qp, now);
  if (qp.send.cursor < qp.sq.tail()) qp.send.refused = true;
  core.make_runnable(qp);
}

void take_turn(Core& core, QueuePair& qp, Time now) {
  if (!qp.can_send()) return;
  if (is_reliable(qp.type)) {
    pump_reliable(core, qp, now);
    if (flow::applies(qp)) flow::end_turn(core, qp, now);
  } else {
    pump_unreliable(core, qp, now);
  }
}

}  // namespace verbena::transport::requester
