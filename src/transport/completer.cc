// SPDX-License-Identifier: Apache-2.0
#include "transport/completer.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "base/check.h"
#include "transport/flow.h"
#include "transport/qp_error.h"
#include "transport/recovery.h"
#include "transport/requester.h"
#include "transport/selective.h"

namespace verbena::transport::completer {
namespace {

using wire::Operation;
using wire::Psn;

[[nodiscard]] WcOpcode completion_opcode(SendOp op) {
  switch (op) {
    case SendOp::kSend:
    case SendOp::kSendImm:
    case SendOp::kSendInvalidate:  return WcOpcode::kSend;
    case SendOp::kWrite:
    case SendOp::kWriteImm:        return WcOpcode::kWrite;
    case SendOp::kRead:            return WcOpcode::kRead;
    case SendOp::kCompareSwap:     return WcOpcode::kCompareSwap;
    case SendOp::kFetchAdd:        return WcOpcode::kFetchAdd;
    case SendOp::kLocalInvalidate: return WcOpcode::kLocalInvalidate;
    case SendOp::kBindWindow:      return WcOpcode::kBindMw;
    case SendOp::kFlush:           return WcOpcode::kFlush;
    case SendOp::kAtomicWrite:     return WcOpcode::kAtomicWrite;
    case SendOp::kConfigureKey:    return WcOpcode::kConfigureKey;
    case SendOp::kCopy:            return WcOpcode::kCopy;
  }
  return WcOpcode::kSend;
}

void report(QueuePair& qp, const SendWqe& wqe, WcStatus status) {
  qp.send_cq->push({.wr_id = wqe.wr_id,
                    .status = status,
                    .opcode = completion_opcode(wqe.op),
                    .byte_len = static_cast<uint32_t>(wqe.length),
                    .qpn = qp.qpn});
}

// Moves una over packets of the head entry; `packets` of it are done.
void pass(QueuePair& qp, const SendWqe& wqe, uint32_t packets, Time now) {
  SendSide& send = qp.send;
  const uint32_t from = (send.una - wqe.first_psn.value()).value();
  const Psn to = wqe.first_psn + packets;
  const uint64_t cost = requester::cost(qp, wqe, from, packets);
  send.window.acked_cost += cost;
  if (flow::applies(qp)) {
    const Direction direction = flow::direction_of(wqe);
    flow::on_acked(qp, direction, cost, selective::on_passed(qp, direction, to, now));
  }
  if (wqe.wants_response() && !to.is_after(qp.cursor_psn())) {
    // Requests that were sent (again) since the last return count as out until fully answered.
    const bool segment_done =
        wqe.op != SendOp::kRead || requester::segment_end(wqe, packets - 1) == packets;
    if (segment_done && send.rd_outstanding > 0) --send.rd_outstanding;
  }
  send.una = to;
}

// After una moved: the cursor never lies behind it.
void pull_cursor(Core& core, QueuePair& qp) {
  SendSide& send = qp.send;
  if (send.window.sent_cost < send.window.acked_cost)
    send.window.sent_cost = send.window.acked_cost;
  const bool behind = send.cursor < qp.sq.head() || qp.cursor_psn().is_before(send.una);
  if (!behind) return;
  // Acknowledged beyond what was sent again: the peer had kept it.
  if (!send.peer_holds) core.count(Counter::kPeerHolds);
  send.peer_holds = true;
  recovery::place_cursor_at_una(qp);
}

// Everything before `limit` is acknowledged, except that a READ or atomic is done only by its
// response. True when una reached the limit.
[[nodiscard]] bool acknowledge_before(Core& core, QueuePair& qp, Psn limit, Time now) {
  while (qp.send.una.is_before(limit)) {
    const SendWqe& wqe = qp.sq.at(qp.sq.head());
    VERBENA_CHECK(!qp.sq.empty() && wqe.started);
    if (wqe.wants_response()) break;
    const Psn end = wqe.first_psn + wqe.packets;
    if (limit.is_before(end)) {
      pass(qp, wqe, (limit - wqe.first_psn.value()).value(), now);
      break;
    }
    pass(qp, wqe, wqe.packets, now);
    complete_head(core, qp);
  }
  pull_cursor(core, qp);
  return qp.send.una == limit;
}

void after_progress(Core& core, QueuePair& qp, Psn una_before, uint64_t acked_before, Time now) {
  if (qp.send.una != una_before) {
    recovery::on_progress(core, qp, qp.send.window.acked_cost - acked_before, now);
  }
}

void on_ack(Core& core, QueuePair& qp, const InPacket& packet, Time now) {
  SendSide& send = qp.send;
  core.count(Counter::kAcksReceived);
  const Psn before = send.una;
  const uint64_t acked_before = send.window.acked_cost;
  const bool all = acknowledge_before(core, qp, packet.view.bth.psn.next(), now);
  if (send.una != before) send.acked_from = packet.source_port;
  after_progress(core, qp, before, acked_before, now);
  if (!all) {
    if (flow::applies(qp)) selective::on_acknowledged(qp, packet.view.bth.psn.next(), now);
    // Acknowledged past a READ or atomic whose response has not come: it was lost on the way.
    core.count(Counter::kReadResponseGap);
    recovery::on_missing_response(core, qp, packet.view.bth.psn.next(), now);
  } else {
    if (send.una != before && flow::applies(qp)) selective::on_next_awaited(qp);
    recovery::on_probe_answer(core, qp, packet.view.bth.psn, now);
  }
}

void on_extension(Core& core, QueuePair& qp, const InPacket& packet, Time now) {
  if (packet.view.payload.empty()) return;
  const Psn psn = packet.view.bth.psn;
  if (!selective::on_extended_ack(core, qp, psn, packet.view.payload, now)) {
    core.count(Counter::kResponseMalformed);
  }
}

// IBA table 43, without what RD alone has: the rest is reserved, and says nothing of what arrived.
[[nodiscard]] bool is_known_nak(uint8_t syndrome) {
  return (syndrome & wire::syndrome::kKindMask) == wire::syndrome::kRnrNak ||
         (syndrome >= wire::syndrome::kNakSequence &&
          syndrome <= wire::syndrome::kNakRemoteOperational);
}

void on_nak(Core& core, QueuePair& qp, const InPacket& packet, uint8_t syndrome, Time now) {
  if (!is_known_nak(syndrome)) {
    core.count(Counter::kResponseMalformed);
    return;
  }
  const Psn psn = packet.view.bth.psn;
  const Psn before = qp.send.una;
  const uint64_t acked_before = qp.send.window.acked_cost;
  const bool all = acknowledge_before(core, qp, psn, now);
  after_progress(core, qp, before, acked_before, now);
  qp.send.probing = false;

  if ((syndrome & wire::syndrome::kKindMask) == wire::syndrome::kRnrNak) {
    core.count(Counter::kRnrNakReceived);
    if (all) {
      recovery::on_rnr(core, qp, rnr_timer(syndrome & wire::syndrome::kValueMask), now);
    } else {
      recovery::on_missing_response(core, qp, psn, now);
    }
    return;
  }
  WcStatus status = WcStatus::kSuccess;
  switch (syndrome) {
    case wire::syndrome::kNakSequence:
      core.count(Counter::kNakSequenceReceived);
      recovery::on_missing_request(core, qp, psn, now);
      return;
    case wire::syndrome::kNakInvalidRequest:
      core.count(Counter::kNakInvalidRequestReceived);
      status = WcStatus::kRemoteInvalidRequest;
      break;
    case wire::syndrome::kNakRemoteAccess:
      core.count(Counter::kNakRemoteAccessReceived);
      status = WcStatus::kRemoteAccess;
      break;
    default:
      core.count(Counter::kNakRemoteOperationalReceived);
      status = WcStatus::kRemoteOperational;
      break;
  }
  // The error is that of the request at `psn`. If an earlier READ is still unanswered it can never
  // be answered now; it is that one which fails, and it fails as what it is: retries run out.
  if (all) fail_head(core, qp, status);
}

// A response with data for the request at una. False when it is not what was asked for.
[[nodiscard]] bool accept(Core& core, QueuePair& qp, const InPacket& packet, Time now) {
  const uint64_t number = qp.sq.head();
  const SendWqe& wqe = qp.sq.at(number);
  const wire::OpcodeInfo& info = *packet.view.info;
  const uint32_t index = (packet.view.bth.psn - wqe.first_psn.value()).value();
  const uint64_t signature_errors = core.memory.signature_errors();
  memory::Fault fault = memory::Fault::kNone;
  if (info.operation == Operation::kAtomicAcknowledge) {
    if (!wqe.is_atomic() || wqe.op == SendOp::kAtomicWrite) return false;
    // Stored in host order, as the value it was at the peer.
    const uint64_t original = packet.view.atomic_ack_eth().original;
    std::array<uint8_t, 8> bytes;
    std::memcpy(bytes.data(), &original, sizeof original);
    fault = core.memory.scatter(qp.pd, qp.sq.list(number), 0, bytes, true);
  } else if (wqe.op == SendOp::kAtomicWrite) {
    if (!packet.view.payload.empty()) return false;
  } else if (wqe.op == SendOp::kRead) {
    const uint64_t offset = uint64_t{index} * qp.mtu;
    const uint64_t want = std::min<uint64_t>(qp.mtu, wqe.length - offset);
    if (packet.view.payload.size() != want) return false;
    const bool last = index + 1 == wqe.packets;
    fault = core.memory.scatter(qp.pd, qp.sq.list(number), offset, packet.view.payload, last);
  } else {
    return false;
  }
  if (fault != memory::Fault::kNone) {
    fail_head(core, qp, WcStatus::kLocalProtection);
    return true;
  }
  if (core.memory.signature_errors() != signature_errors) qp.note_signature_error();
  pass(qp, wqe, index + 1, now);
  if (index + 1 == wqe.packets) complete_head(core, qp);
  pull_cursor(core, qp);
  return true;
}

void on_data(Core& core, QueuePair& qp, const InPacket& packet, Time now) {
  SendSide& send = qp.send;
  const Psn before = send.una;
  const uint64_t acked_before = send.window.acked_cost;
  const Psn psn = packet.view.bth.psn;
  if (!acknowledge_before(core, qp, psn, now)) {
    after_progress(core, qp, before, acked_before, now);
    core.count(Counter::kReadResponseGap);
    const auto kept = send.hold.keep(core.hold_pool, send.una, packet);
    if (kept == Hold::Kept::kNoLonger) {
      selective::on_dropped_response(qp, psn);
    } else if (kept != Hold::Kept::kNot) {
      core.count(Counter::kReadResponseHeld);
      if (flow::applies(qp)) selective::on_early_response(core, qp, psn, now);
    }
    recovery::on_missing_response(core, qp, psn, now);
    return;
  }
  send.hold.set_port(packet.source_port);
  if (!accept(core, qp, packet, now)) core.count(Counter::kResponseMalformed);
  // What came early and follows now.
  while (qp.can_send() && !send.hold.empty()) {
    const InPacket* held = send.hold.find(send.una);
    if (held == nullptr && !qp.sq.empty()) {
      // The next held response may stand behind sends and writes that it acknowledges.
      const uint32_t gap = send.hold.gap_after(send.una, ~0u);
      if (gap == ~0u || !acknowledge_before(core, qp, send.una + gap, now)) break;
      held = send.hold.find(send.una);
    }
    if (held == nullptr) break;
    if (accept(core, qp, *held, now)) continue;  // all of them are released together
    core.count(Counter::kResponseMalformed);
    send.hold.release_before(core.hold_pool, send.una.next());
  }
  send.hold.release_before(core.hold_pool, send.una);
  if (!qp.can_send()) return;
  if (send.una != before) send.probing = false;
  after_progress(core, qp, before, acked_before, now);
}

}  // namespace

void complete_head(Core& /*core*/, QueuePair& qp) {
  // Local operations behind it that were carried out end with it, so that the head is always what
  // the next response is about.
  do {
    const SendWqe& wqe = qp.sq.at(qp.sq.head());
    qp.count(wqe.op, WcStatus::kSuccess, wqe.length);
    if (qp.signal_all || (wqe.flags & kSignaled) != 0) report(qp, wqe, WcStatus::kSuccess);
    qp.sq.pop_head();
  } while (!qp.sq.empty() && qp.sq.at(qp.sq.head()).is_done_locally());
}

void fail_head(Core& core, QueuePair& qp, WcStatus status) {
  VERBENA_CHECK(!qp.sq.empty());
  const SendWqe& wqe = qp.sq.at(qp.sq.head());
  qp.count(wqe.op, status, 0);
  report(qp, wqe, status);
  qp.sq.pop_head();
  if (is_reliable(qp.type)) {
    enter_error(core, qp);
  } else {
    enter_send_error(core, qp);
  }
}

void retire_local(Core& core, QueuePair& qp, Time /*now*/) {
  while (!qp.sq.empty()) {
    const SendWqe& wqe = qp.sq.at(qp.sq.head());
    if (!wqe.started) break;
    if (wqe.local_status != WcStatus::kSuccess) {
      fail_head(core, qp, wqe.local_status);
      return;
    }
    if (!wqe.is_local() || qp.sq.head() >= qp.send.cursor) break;
    complete_head(core, qp);
  }
  notify_if_drained(core, qp);
}

bool is_drained(const QueuePair& qp) { return qp.sq.empty() || !qp.sq.at(qp.sq.head()).started; }

void notify_if_drained(Core& core, QueuePair& qp) {
  if (qp.state() != QpState::kSqd || qp.send.drained_notified) return;
  if (!is_drained(qp)) return;
  qp.send.drained_notified = true;
  core.events.qp_event(Event::kSqDrained, qp.qpn);
}

RunPlace place_of_run(const Core& core, QueuePair& qp, const wire::Run& run) {
  const SendSide& send = qp.send;
  if (!qp.can_send() || qp.sq.empty() || run.first.bth.psn != send.una || !send.hold.empty()) {
    return {};
  }
  const SendWqe& wqe = qp.sq.at(qp.sq.head());
  if (!wqe.started || wqe.op != SendOp::kRead) return {};
  // Of one request, as far as it was asked for, and not its last packet.
  const uint32_t index = (send.una - wqe.first_psn.value()).value();
  const uint32_t end = std::min({index + run.packets, requester::segment_end(wqe, index),
                                 index + static_cast<uint32_t>(distance(send.una, send.sent_end))});
  if (end <= index || end >= wqe.packets) return {};
  const uint64_t n = uint64_t{end - index} * qp.mtu;
  const auto plain =
      core.memory.stretch(qp.pd, qp.sq.list(qp.sq.head()), uint64_t{index} * qp.mtu, n, true);
  return {&qp, plain.size() == n ? plain.data() : nullptr, end - index};
}

bool place(const Core& core, QueuePair& qp, uint32_t index, std::span<const uint8_t> payload) {
  const SendWqe& wqe = qp.sq.at(qp.sq.head());
  const uint64_t from = (qp.send.una - wqe.first_psn.value()).value() + uint64_t{index};
  const uint64_t errors = core.memory.signature_errors();
  const auto fault =
      core.memory.scatter(qp.pd, qp.sq.list(qp.sq.head()), from * qp.mtu, payload, false);
  if (core.memory.signature_errors() != errors) qp.note_signature_error();
  return fault == memory::Fault::kNone;
}

void on_run(Core& core, QueuePair& qp, uint32_t packets, Time now) {
  SendSide& send = qp.send;
  const Psn before = send.una;
  const uint64_t acked_before = send.window.acked_cost;
  const SendWqe& wqe = qp.sq.at(qp.sq.head());
  pass(qp, wqe, (send.una - wqe.first_psn.value()).value() + packets, now);
  pull_cursor(core, qp);
  send.probing = false;
  after_progress(core, qp, before, acked_before, now);
  requester::pump(core, qp, now);
}

void on_response(Core& core, QueuePair& qp, const InPacket& packet, Time now) {
  if (!qp.can_send()) {
    core.count(Counter::kDropWrongState);
    return;
  }
  const Psn psn = packet.view.bth.psn;
  const uint8_t syndrome = packet.view.info->has(wire::kAeth) ? packet.view.aeth().syndrome : 0;
  const uint8_t kind = syndrome & wire::syndrome::kKindMask;
  const bool plain_ack = packet.view.info->operation == Operation::kAcknowledge;
  const bool nak = plain_ack && kind != wire::syndrome::kAck;
  // Nobody answers with an extension who was not told that it is understood, and a NAK has none.
  if (plain_ack && !packet.view.payload.empty() && (nak || !flow::applies(qp))) {
    core.count(Counter::kResponseMalformed);
    return;
  }
  // A sequence NAK names the PSN that its sender expects next, which may be the first never sent.
  const bool may_be_next = nak && syndrome == wire::syndrome::kNakSequence;
  if (psn.is_before(qp.send.una)) {
    core.count(Counter::kResponseStale);
    if (plain_ack && !nak) {
      recovery::on_probe_answer(core, qp, psn, now);
      on_extension(core, qp, packet, now);
    } else if (!plain_ack && flow::applies(qp)) {
      selective::on_duplicate_response(core, qp, psn, now);
    }
  } else if (may_be_next ? psn.is_after(qp.send.sent_end) : !psn.is_before(qp.send.sent_end)) {
    core.count(Counter::kResponseBeyond);
    return;
  } else if (nak) {
    on_nak(core, qp, packet, syndrome, now);
  } else if (plain_ack) {
    on_ack(core, qp, packet, now);
    if (qp.can_send()) on_extension(core, qp, packet, now);
  } else if (kind != wire::syndrome::kAck) {
    core.count(
        Counter::kResponseMalformed);  // a read response or atomic result that claims to be a NAK
  } else {
    on_data(core, qp, packet, now);
  }
  if (flow::applies(qp) && qp.can_send()) recovery::look(core, qp, now);
  requester::pump(core, qp, now);
}

}  // namespace verbena::transport::completer
