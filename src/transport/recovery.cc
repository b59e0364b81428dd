// SPDX-License-Identifier: Apache-2.0
#include "transport/recovery.h"

#include <algorithm>
#include <utility>

#include "transport/black_hole.h"
#include "transport/completer.h"
#include "transport/flow.h"
#include "transport/packet_writer.h"
#include "transport/requester.h"
#include "transport/selective.h"

namespace verbena::transport::recovery {
namespace {

using wire::Psn;

constexpr uint32_t kMinWindowPackets = 4;
constexpr uint32_t kLossesAllowed = 2;  // per window in flight,
constexpr uint32_t kLossShare = 8;      // or one packet in so many, whichever is more
constexpr int32_t kMaxSpacing = 1 << 16;
constexpr uint8_t kMaxProbeDoublings = 8;
constexpr Duration kMaxProbeWait = 500 * kMillisecond;

// What the link refuses to take (its receiver on this host is stopped) is not in flight, and yet
// the timeout runs, as if it had been sent and lost: the peer does not answer either way.
[[nodiscard]] bool in_flight(const QueuePair& qp) { return qp.send.una != qp.send.sent_end; }

[[nodiscard]] Duration probe_wait(const Core& core, const QueuePair& qp) {
  const RoundTrip& rtt = qp.send.rtt;
  // While something is known to be missing, silence means that the repair was lost as well.
  const Duration least = qp.send.recovering ? 2 * rtt.smoothed : core.tuning.min_probe;
  // Nobody was asked to say anything yet; see requester's can_wait_for_ack().
  if (!qp.send.una.is_before(qp.send.requested_end) && !qp.send.recovering) {
    return qp.send.answer_awaited ? core.tuning.min_probe : core.tuning.unasked_probe;
  }
  // What others learnt of the way holds for a queue pair that was not heard of yet.
  const Duration usual = flow::applies(qp) ? flow::answer_time(qp) : 0;
  const Duration base = rtt.smoothed == 0 && usual == 0
                            ? core.tuning.first_probe
                            : std::max({least, rtt.smoothed + 4 * rtt.variation, usual});
  return std::min(base << std::min(qp.send.probes, kMaxProbeDoublings), kMaxProbeWait);
}

// The standard lets it be up to four times as long as was asked for (IBA 9.7.6.1.3): on a long way
// with a long queue it must be.
[[nodiscard]] Duration timeout_of(const QueuePair& qp) {
  const Duration asked = ack_timeout(qp.attr.timeout);
  if (asked == kNever || !flow::applies(qp)) return asked;
  return std::clamp(2 * flow::answer_time(qp), asked, 4 * asked);
}

void restart_timers(const Core& core, QueuePair& qp, Time now) {
  const Duration timeout = timeout_of(qp);
  qp.send.timeout_at = timeout == kNever ? kNever : now + timeout;
  qp.send.probe_at = now + probe_wait(core, qp);
}

void sample_round_trip(QueuePair& qp, Time now) {
  RoundTrip& rtt = qp.send.rtt;
  if (!rtt.timing || !rtt.timed_psn.is_before(qp.send.una)) return;
  rtt.timing = false;
  const Duration sample = std::max<Duration>(now - rtt.timed_at, 1);
  // Sooner than it can come back: it is the answer to the packet's first copy, which was late.
  if (rtt.timed_repair && sample < rtt.smoothed / 2) return;
  // Only now, not at any progress (Karn's rule): a peer that has become slower than the wait would
  // otherwise be probed each time, and what is probed cannot be measured.
  qp.send.probes = 0;
  rtt.add(sample);
}

void shrink_window(QueuePair& qp) {
  SendSide& send = qp.send;
  const uint64_t least = uint64_t{kMinWindowPackets} * (qp.mtu + kPacketOverhead);
  send.window.allowed = std::max(send.window.allowed - send.window.allowed / 4, least);
  send.window.grow_credit = 0;
  send.window.shrunk = true;
}

void grow_window(QueuePair& qp, uint64_t acked_cost) {
  const SendSide& send = qp.send;
  Window& window = qp.send.window;
  window.grow_credit += acked_cost;
  const bool too_much = send.recovering && send.losses > send.losses_allowed;
  if (too_much || window.grow_credit < window.allowed) return;
  window.grow_credit = 0;
  const uint64_t step =
      window.shrunk ? 2 * (uint64_t{qp.mtu} + kPacketOverhead) : window.allowed / 4;
  window.allowed = std::min<uint64_t>(window.allowed + step, window.limits.max_bytes);
}

// A link that loses one packet in many loses them at any window; a receiver that overflows loses
// many of one window. Only the latter is helped by sending less.
//
// To another host it is the destination's window that learns of it.
void note_loss(Core& core, QueuePair& qp, Direction direction, Psn lost, uint32_t packets,
               Time now) {
  SendSide& send = qp.send;
  if (flow::applies(qp)) {
    // A repair that is lost is a new loss.
    const bool renewed = !send.recovering || lost.is_before(send.resent_end);
    flow::on_loss(core, qp, direction, uint64_t{packets} * (qp.mtu + kPacketOverhead), renewed,
                  now);
  }
  send.rtt.timing = false;  // what is out waits for the repair
  if (!send.recovering) {
    send.recovering = true;
    send.recover_until = send.sent_end;
    send.losses = 0;
    const auto out = static_cast<uint32_t>(distance(send.una, send.sent_end));
    send.losses_allowed = std::max(kLossesAllowed, out / kLossShare);
  }
  if (++send.losses == send.losses_allowed + 1 && !flow::applies(qp)) shrink_window(qp);
}

void go_back(Core& core, QueuePair& qp) {
  SendSide& send = qp.send;
  if (!in_flight(qp)) return;
  core.count(Counter::kGoBack);
  place_cursor_at_una(qp);
  send.window.sent_cost = send.window.acked_cost;
  if (flow::applies(qp)) flow::on_go_back(qp);
  send.rd_outstanding = 0;
  send.rtt.timing = false;
  send.repaired = false;
  send.resend_waits = false;
  send.asked = false;
  send.probing = false;
}

// The peer said that it does not have this packet: when it is acknowledged, that is for the copy
// sent now. Of a packet that was sent again before nobody can tell which copy is acknowledged
// (Karn's rule).
void time_repair(QueuePair& qp, Psn psn, Time now) {
  RoundTrip& rtt = qp.send.rtt;
  if (rtt.timing || psn.is_before(qp.send.resent_end)) return;
  rtt = {.smoothed = rtt.smoothed,
         .variation = rtt.variation,
         .timing = true,
         .timed_psn = psn,
         .timed_at = now,
         .timed_repair = true};
}

// Sends packets from `from` on again.
void repair(Core& core, QueuePair& qp, Psn from, uint32_t packets, Time now) {
  SendSide& send = qp.send;
  core.count(Counter::kRepair);
  send.repaired = true;
  send.repaired_until = from + packets;
  send.repaired_at = now;
  time_repair(qp, from, now);
  requester::resend(core, qp, requester::Resend::kRequests, from, packets, now);
}

// What is missing was sent again less than a round trip ago.
[[nodiscard]] bool repair_is_on_its_way(const QueuePair& qp, Psn missing, Time now) {
  const SendSide& send = qp.send;
  if (!send.repaired || !missing.is_before(send.repaired_until)) return false;
  return send.rtt.smoothed == 0 || now < send.repaired_at + send.rtt.smoothed;
}

// The peer names one missing packet per round trip. When more than one is lost in that time,
// waiting for each to be named costs more than sending some again unasked: as many as make the two
// costs equal.
[[nodiscard]] uint32_t others_likely_lost(QueuePair& qp, Psn missing) {
  SendSide& send = qp.send;
  const int32_t spacing = distance(send.last_gap, missing);
  send.last_gap = missing;
  if (spacing <= 0 || spacing > kMaxSpacing) return 0;
  const auto now_seen = static_cast<uint32_t>(spacing);
  send.gap_spacing = send.gap_spacing == 0 ? now_seen : (3 * send.gap_spacing + now_seen) / 4;
  const auto out = static_cast<uint32_t>(distance(missing, qp.cursor_psn()));
  return out > send.gap_spacing ? (out - send.gap_spacing) / 2 : 0;
}

// Asks for every response before `limit`, or before one that is held, that is not there and was not
// asked for again yet.
void ask_for_missing(Core& core, QueuePair& qp, Psn limit, Time now) {
  SendSide& send = qp.send;
  Psn from = send.una;
  if (send.asked && from.is_before(send.asked_until)) from = send.asked_until;
  for (;;) {
    from = send.hold.next_missing(from);
    uint32_t missing = send.hold.gap_after(from, 0);
    if (missing == 0 && from.is_before(limit))
      missing = static_cast<uint32_t>(distance(from, limit));
    if (missing == 0) break;
    note_loss(core, qp, Direction::kIn, from, missing, now);
    core.count(Counter::kRepair);
    time_repair(qp, from, now);
    requester::resend(core, qp, requester::Resend::kResponses, from, missing, now);
    from = from + missing;
  }
  send.asked = true;
  send.asked_until = from;
}

// Responses still come, and the one at una, though asked for a good round trip ago, does not: the
// question or its answer was lost too.
void ask_again_for_oldest(Core& core, QueuePair& qp, Time now) {
  SendSide& send = qp.send;
  if (send.oldest_asked != send.una) {
    send.oldest_asked = send.una;
    send.oldest_asked_at = now;
    return;
  }
  const RoundTrip& rtt = send.rtt;
  if (rtt.smoothed == 0 || now < send.oldest_asked_at + rtt.smoothed + 2 * rtt.variation) return;
  send.oldest_asked_at = now;
  const uint32_t missing = send.hold.gap_after(send.una, 0);
  if (missing == 0) return;
  core.count(Counter::kRepair);
  requester::resend(core, qp, requester::Resend::kResponses, send.una, missing, now);
}

// A process that waits for its core is not gone: a NIC would have answered for it. As long as it
// lives and has not read what it was sent, or there is no room for it or for an answer, a timeout
// costs no retry; but who is stopped is not waited for for ever.
[[nodiscard]] bool waits_for_reader(const Core& core, QueuePair& qp, Time now) {
  SendSide& send = qp.send;
  if (!core.link.is_unread(qp.attr.path, qp.attr.dest_qpn)) {
    send.unread_since = kNever;
    return false;
  }
  send.unread_since = std::min(send.unread_since, now);
  return now - send.unread_since < core.tuning.unread_patience;
}

void on_timeout(Core& core, QueuePair& qp, Time now) {
  core.count(Counter::kTimeout);
  black_hole::on_silence(core, qp, qp.send.retries_left == 0);
  if (!waits_for_reader(core, qp, now)) {
    if (qp.send.retries_left == 0) {
      core.count(Counter::kRetryExceeded);
      completer::fail_head(core, qp, WcStatus::kRetryExceeded);
      return;
    }
    --qp.send.retries_left;
  }
  qp.send.peer_holds = false;
  if (flow::applies(qp)) {
    flow::on_timeout(qp, now);
  } else {
    shrink_window(qp);
  }
  go_back(core, qp);
  restart_timers(core, qp, now);
  requester::pump(core, qp, now);
}

void on_probe(Core& core, QueuePair& qp, Time now) {
  core.count(Counter::kTailProbe);
  if (qp.send.probes < kMaxProbeDoublings) {
    ++qp.send.probes;
  } else {
    black_hole::on_silence(core, qp, false);  // there may be no timeout
  }
  qp.send.probing = true;
  qp.send.probed_at = now;
  qp.send.probed = qp.send.una;
  qp.send.probed_until = qp.cursor_psn();
  // Nobody can tell of which copy an acknowledgement is, or whether it waited for a repair.
  if (qp.send.recovering || qp.send.rtt.timed_psn == qp.send.una) qp.send.rtt.timing = false;
  qp.send.probe_at = now + probe_wait(core, qp);
  qp.send.asked = false;
  if (flow::applies(qp)) {
    if (qp.send.recovering) {
      flow::stop_timing(qp);
    } else {
      flow::stop_timing_oldest(qp);
    }
  }
  if (qp.send.hold.empty()) {
    requester::resend(core, qp, requester::Resend::kRequests, qp.send.una, 1, now);
  } else if (selective::decides(qp, Direction::kIn)) {
    const uint32_t missing = qp.send.hold.gap_after(qp.send.una, 1);
    requester::resend(core, qp, requester::Resend::kResponses, qp.send.una, missing, now);
  } else {
    ask_for_missing(core, qp, qp.send.una, now);
    qp.send.rtt.timing = false;
  }
  if (qp.can_send()) arm(core, qp, now);
}

}  // namespace

void place_cursor_at_una(QueuePair& qp) {
  qp.send.cursor = qp.sq.head();
  qp.send.cursor_packet = 0;
  // Entries that are done but for their report (local operations) lie before una.
  while (qp.send.cursor < qp.sq.tail() && qp.sq.at(qp.send.cursor).started &&
         qp.sq.at(qp.send.cursor).is_local() &&
         qp.sq.at(qp.send.cursor).local_status == WcStatus::kSuccess) {
    ++qp.send.cursor;
  }
  if (qp.send.cursor < qp.sq.tail() && qp.sq.at(qp.send.cursor).started) {
    qp.send.cursor_packet = (qp.send.una - qp.sq.at(qp.send.cursor).first_psn.value()).value();
  }
}

void arm(Core& core, QueuePair& qp, Time now) {
  SendSide& send = qp.send;
  if (send.rnr_until != 0) {
    core.timers.set(qp, send.rnr_until);
    return;
  }
  if (!in_flight(qp)) {
    send.probe_at = kNever;
    send.timeout_at = kNever;
    core.timers.set(qp, kNever);
    return;
  }
  if (send.probe_at == kNever) {
    restart_timers(core, qp, now);
  } else {
    // Sooner, once an acknowledgement was asked for.
    send.probe_at = std::min(send.probe_at, now + probe_wait(core, qp));
  }
  core.timers.set(qp, std::min({send.probe_at, send.timeout_at, send.look_at}));
}

void look(Core& core, QueuePair& qp, Time now) {
  if (!selective::decides(qp, Direction::kOut) && !selective::decides(qp, Direction::kIn)) return;
  selective::look(core, qp, now);
  if (std::exchange(qp.send.news, false) && in_flight(qp)) restart_timers(core, qp, now);
  arm(core, qp, now);
}

void on_timer(Core& core, QueuePair& qp, Time now) {
  SendSide& send = qp.send;
  if (!qp.can_send()) return;
  if (now >= send.look_at && send.rnr_until == 0) {
    look(core, qp, now);
    requester::pump(core, qp, now);
    if (!qp.can_send()) return;
  }
  if (send.rnr_until != 0) {
    if (now >= send.rnr_until) {
      send.rnr_until = 0;
      go_back(core, qp);
      restart_timers(core, qp, now);
      requester::pump(core, qp, now);
    }
  } else if (send.refused || (flow::applies(qp) && flow::waits_with_nothing_out(qp))) {
    // Not lost but waiting for room at its receiver, and listed to go on: silence says nothing. A
    // receiver that takes nothing any more is the link's to find out; then it has room for all.
    restart_timers(core, qp, now);
  } else if (in_flight(qp)) {
    if (now >= send.timeout_at) {
      on_timeout(core, qp, now);
    } else if (now >= send.probe_at) {
      on_probe(core, qp, now);
    }
  }
  if (qp.can_send()) arm(core, qp, now);
}

void on_progress(Core& core, QueuePair& qp, uint64_t acked_cost, Time now) {
  SendSide& send = qp.send;
  sample_round_trip(qp, now);
  black_hole::on_arrival(qp);
  send.retries_left = qp.attr.retry_count;
  send.unread_since = kNever;
  send.rnr_left = qp.attr.rnr_retry;
  if (send.probing && !send.una.is_before(send.probed_until)) send.probing = false;
  if (send.recovering) send.probes = 0;  // the silence was loss, not slowness
  if (send.recovering && !send.una.is_before(send.recover_until)) send.recovering = false;
  // Or it would lie ahead again once PSNs have come half round.
  if (send.asked && !send.una.is_before(send.asked_until)) send.asked = false;
  if (send.resent_end.is_before(send.una)) send.resent_end = send.una;
  if (flow::applies(qp)) {
    flow::on_progress(core, qp, now);
  } else {
    grow_window(qp, acked_cost);
  }
  restart_timers(core, qp, now);
  arm(core, qp, now);
}

void on_missing_response(Core& core, QueuePair& qp, Psn limit, Time now) {
  if (!in_flight(qp) || qp.send.rnr_until != 0) return;
  if (flow::applies(qp)) return selective::on_missing_response(qp, limit, now);
  ask_for_missing(core, qp, limit, now);
  ask_again_for_oldest(core, qp, now);
  if (qp.can_send()) requester::pump(core, qp, now);
}

void on_missing_request(Core& core, QueuePair& qp, Psn missing, Time now) {
  SendSide& send = qp.send;
  // While an RNR timer runs nothing is sent (IBA 9.7.5.2.8); what is missing is sent again after
  // it.
  if (!in_flight(qp) || send.rnr_until != 0 || repair_is_on_its_way(qp, missing, now)) return;
  note_loss(core, qp, Direction::kOut, missing, 1, now);
  const bool burst = send.repaired && missing == send.repaired_until;
  if (send.peer_holds && !burst && missing.is_before(send.sent_end)) {
    repair(core, qp, missing, 1 + others_likely_lost(qp, missing), now);
  } else {
    go_back(core, qp);
    if (missing == send.una) time_repair(qp, missing, now);
  }
  if (qp.can_send()) requester::pump(core, qp, now);
}

void on_probe_answer(Core& core, QueuePair& qp, Psn acked, Time now) {
  SendSide& send = qp.send;
  if (!send.probing || selective::decides(qp, Direction::kOut)) return;
  // What answers sooner than anything can come back is about something sent earlier.
  if (now < send.probed_at + send.rtt.smoothed / 2) return;
  // An answer that says less than is known is an old one. One for packets behind the probe's may be
  // that of a slow peer which is still at work on them, and to send them all again would make it
  // slower still (RFC 5682 has the argument); where one packet is sent, not all, it is worth it.
  if (acked.next() != send.una || (acked.is_after(send.probed) && !send.peer_holds)) return;
  send.probing = false;
  // The peer had this much when the probe, sent last, reached it: what follows is lost.
  if (!in_flight(qp)) return;
  note_loss(core, qp, Direction::kOut, send.una, 1, now);
  if (send.peer_holds && !qp.sq.at(qp.sq.head()).wants_response()) {
    repair(core, qp, send.una, 1, now);
  } else {
    go_back(core, qp);
  }
  // No progress: the timeout runs on, or a peer that only ever repeats itself is never given up.
  send.probe_at = now + probe_wait(core, qp);
}

void on_rnr(Core& core, QueuePair& qp, Duration wait, Time now) {
  SendSide& send = qp.send;
  if (!in_flight(qp) || send.rnr_until != 0) return;
  black_hole::on_arrival(qp);
  if (qp.attr.rnr_retry != 7) {
    if (send.rnr_left == 0) {
      core.count(Counter::kRnrRetryExceeded);
      completer::fail_head(core, qp, WcStatus::kRnrRetryExceeded);
      return;
    }
    --send.rnr_left;
  }
  send.rnr_until = now + wait;
  send.timeout_at = kNever;
  send.probe_at = kNever;
  arm(core, qp, now);
}

void ping(Core& core, const QueuePair& qp) {
  core.count(Counter::kPing);
  PacketWriter writer(qp, qp.service(), wire::Op::kSendOnly, qp.send.una.previous());
  writer.bth().ack_request = true;
  if (qp.type == QpType::kXrcSend) {
    const SrqId srq = qp.sq.empty() ? SrqId() : qp.sq.at(qp.sq.head()).remote_srq;
    writer.put(wire::Xrceth{.reserved = 0, .srq = srq});
  }
  writer.send(core, qp.attr.path);
}

}  // namespace verbena::transport::recovery
