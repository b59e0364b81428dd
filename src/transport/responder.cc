// SPDX-License-Identifier: Apache-2.0
#include "transport/responder.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "transport/flow.h"
#include "transport/packet_writer.h"
#include "transport/qp_error.h"
#include "transport/read_replies.h"
#include "transport/request_checks.h"
#include "wire/extended_ack.h"

namespace verbena::transport::responder {
namespace {

using wire::Operation;
using wire::Psn;

// Old packets this close behind on UC are copies, not a peer that started afresh.
constexpr int32_t kUcDuplicateWindow = 1 << 15;

void send_ack(Core& core, QueuePair& qp, uint8_t syndrome, Psn psn) {
  PacketWriter writer(qp, qp.service(), wire::Op::kAcknowledge, psn);
  writer.put(wire::Aeth{syndrome, qp.recv.msn & 0xffffff});
  writer.send(core, qp.attr.path);
}

// The ACK of all in order, with what is held behind it.
void send_extended_ack(Core& core, QueuePair& qp) {
  RecvSide& recv = qp.recv;
  core.count(Counter::kExtendedAcksSent);
  wire::ExtendedAckWriter extension(core.link.staging());
  const uint32_t most = recv.hold.empty() ? 0 : (qp.mtu - wire::ExtendedAck::kHeaderBytes) / 4;
  Psn from = recv.expected.next();
  for (uint32_t words = 0; words < most && from.is_before(recv.hold.end()); ++words) {
    extension.append(recv.hold.word_at(from));
    from = from + 32;
  }
  std::optional<Psn> duplicate;
  if (std::exchange(recv.has_duplicate, false)) duplicate = recv.duplicate;
  recv.early = 0;
  const uint64_t room = core.receive_room.share() / wire::ExtendedAck::kRoomUnit;
  const std::span<const uint8_t> bytes =
      extension.finish(static_cast<uint16_t>(std::min<uint64_t>(room, 0xffff)), duplicate);
  PacketWriter writer(qp, qp.service(), wire::Op::kAcknowledge, recv.expected.previous());
  writer.put(wire::Aeth{wire::syndrome::kAckNoCredits, recv.msn & 0xffffff});
  writer.send(core, qp.attr.path, {&bytes, 1}, static_cast<uint32_t>(bytes.size()));
}

// Whether a peer that understands it is to be told more than that all in order arrived.
[[nodiscard]] bool has_more_to_say(const Core& core, const RecvSide& recv) {
  return recv.understands &&
         (!recv.hold.empty() || recv.has_duplicate || core.receive_room.share() != 0);
}

// A packet of the peer's, and nobody else's.
void note_understanding(QueuePair& qp, const InPacket& packet) {
  if (!qp.recv.hold.is_from_port(packet)) return;
  qp.recv.understands = (packet.view.bth.reserved7 & wire::kUnderstandsExtendedAck) != 0;
}

void owe_ack(Core& core, QueuePair& qp) {
  if (qp.recv.ack_due) {
    core.count(Counter::kAcksCoalesced);
    return;
  }
  qp.recv.ack_due = true;
  if (!qp.recv.in_ack_list) {
    qp.recv.in_ack_list = true;
    core.ack_list.push_back(&qp);
  }
}

// Says which PSN is missing: once per gap by a NAK; to a peer that understands it by what is held.
void nak_missing(Core& core, QueuePair& qp) {
  if (qp.recv.nak_sent) return;
  if (qp.recv.understands && !qp.recv.hold.empty()) return owe_ack(core, qp);
  qp.recv.nak_owed = qp.recv.replies_pending > 0;
  if (qp.recv.nak_owed) return;
  qp.recv.nak_sent = true;
  qp.recv.ack_due = false;  // a NAK acknowledges everything before it
  core.count(Counter::kNakSequenceSent);
  send_ack(core, qp, wire::syndrome::kNakSequence, qp.recv.expected);
}

void complete_receive(QueuePair& qp, const InPacket& packet, WcStatus status) {
  const wire::OpcodeInfo& info = *packet.view.info;
  RecvSide& recv = qp.recv;
  Completion completion{
      .wr_id = recv.taken.wr_id,
      .status = status,
      .opcode = info.operation == Operation::kWrite ? WcOpcode::kRecvWriteImm : WcOpcode::kRecv,
      .solicited = packet.view.bth.solicited,
      .byte_len = static_cast<uint32_t>(recv.received),
      .qpn = qp.qpn,
      .source_qpn = qp.attr.dest_qpn};
  if (info.has(wire::kImmDt)) {
    completion.flags |= kWcWithImm;
    completion.imm_or_rkey = packet.view.imm().value;
  }
  if (info.has(wire::kIeth)) {
    completion.flags |= kWcWithInvalidate;
    completion.imm_or_rkey = packet.view.ieth().rkey.value;
  }
  recv.taken.present = false;
  qp.count(CountedOp::kRecv, status, recv.received);
  qp.recv_cq->push(completion);
}

// A verdict other than good, on RC: tell the peer; all but RNR end the connection.
void refuse(Core& core, QueuePair& qp, const InPacket& packet, Verdict verdict) {
  RecvSide& recv = qp.recv;
  recv.ack_due = false;
  if (verdict == Verdict::kNotReady) {
    core.count(Counter::kRnrNakSent);
    recv.nak_sent = true;  // what follows is early until this packet comes again
    send_ack(core, qp, static_cast<uint8_t>(wire::syndrome::kRnrNak | qp.attr.min_rnr_timer),
             recv.expected);
    return;
  }
  const bool receive_failed = recv.taken.present;
  if (packet.view.info->operation == Operation::kWrite) {
    qp.count(CountedOp::kRemoteWrite, WcStatus::kRemoteAccess, 0);
  }
  switch (verdict) {
    case Verdict::kRemoteAccess:
      core.count(Counter::kNakRemoteAccessSent);
      send_ack(core, qp, wire::syndrome::kNakRemoteAccess, recv.expected);
      core.events.qp_event(Event::kQpAccessError, qp.qpn);
      break;
    case Verdict::kRemoteOperational:
      core.count(Counter::kNakRemoteOperationalSent);
      send_ack(core, qp, wire::syndrome::kNakRemoteOperational, recv.expected);
      if (receive_failed) complete_receive(qp, packet, WcStatus::kLocalProtection);
      break;
    default:
      core.count(Counter::kNakInvalidRequestSent);
      send_ack(core, qp, wire::syndrome::kNakInvalidRequest, recv.expected);
      if (verdict == Verdict::kTooLong) {
        complete_receive(qp, packet, WcStatus::kLocalLength);
      } else {
        core.events.qp_event(Event::kQpRequestError, qp.qpn);
      }
      break;
  }
  enter_error(core, qp);
}

// Carries out a SEND or WRITE packet that passed every check.
[[nodiscard]] Verdict execute_data(Core& core, QueuePair& qp, const InPacket& packet) {
  const wire::OpcodeInfo& info = *packet.view.info;
  RecvSide& recv = qp.recv;
  const bool send = info.operation == Operation::kSend;
  if (info.starts_message()) {
    recv.received = 0;
    recv.in_message = send ? RecvSide::InMessage::kSend : RecvSide::InMessage::kWrite;
    if (!send) {
      const wire::Reth reth = packet.view.reth();
      recv.write_rkey = reth.rkey;
      recv.write_addr = RemoteAddr(reth.address);
      recv.write_length = reth.length;
    }
  }
  const bool last = info.ends_message();
  if (!packet.view.payload.empty()) {
    if (send) {
      const auto fault = core.memory.scatter(qp.receive_pd(), recv.taken.list, recv.received,
                                             packet.view.payload, last);
      if (fault != memory::Fault::kNone) return Verdict::kRemoteOperational;
    } else {
      const auto fault = core.memory.remote_write({qp.pd, qp.qpn}, recv.write_rkey,
                                                  RemoteAddr(recv.write_addr.value + recv.received),
                                                  packet.view.payload, last);
      if (fault != memory::Fault::kNone) return Verdict::kRemoteAccess;
    }
  }
  recv.received += packet.view.payload.size();
  if (!last) return Verdict::kGood;
  if (info.has(wire::kIeth)) {
    const auto fault = core.memory.invalidate_remote(packet.view.ieth().rkey, {qp.pd, qp.qpn});
    if (fault != memory::Fault::kNone) return Verdict::kRemoteOperational;
  }
  recv.in_message = RecvSide::InMessage::kNone;
  recv.msn = (recv.msn + 1) & 0xffffff;
  if (!send) qp.count(CountedOp::kRemoteWrite, WcStatus::kSuccess, recv.received);
  return Verdict::kGood;
}

void acknowledge(Core& core, QueuePair& qp, const InPacket& packet) {
  const wire::OpcodeInfo& info = *packet.view.info;
  const bool data = info.operation == Operation::kSend || info.operation == Operation::kWrite;
  if (!data) return;  // the reply acknowledges
  if (packet.view.bth.ack_request) {
    note_understanding(qp, packet);
    owe_ack(core, qp);
  }
  if (info.ends_message() && (info.operation == Operation::kSend || info.has(wire::kImmDt))) {
    complete_receive(qp, packet, WcStatus::kSuccess);
  }
}

// One packet that is in order. False when it was refused.
[[nodiscard]] bool process(Core& core, QueuePair& qp, const InPacket& packet) {
  qp.recv.nak_sent = false;
  qp.recv.nak_owed = false;
  Verdict verdict = check_request(core, qp, packet);
  if (verdict == Verdict::kGood) {
    const Operation operation = packet.view.info->operation;
    if (operation == Operation::kSend || operation == Operation::kWrite) {
      const RecvSide::InMessage in_message = qp.recv.in_message;
      const uint64_t received = qp.recv.received;
      verdict = execute_data(core, qp, packet);
      if (verdict == Verdict::kGood) {
        qp.recv.expected = qp.recv.expected.next();
      } else {
        // As before the packet: it is looked at again if the refusal has to wait.
        qp.recv.in_message = in_message;
        qp.recv.received = received;
      }
    } else {
      verdict = read_replies::execute(core, qp, packet);
    }
  }
  if (verdict != Verdict::kGood) {
    // Replies to earlier READs go out before the refusal; the packet waits for them among the early
    // ones.
    if (qp.recv.replies_pending == 0) {
      refuse(core, qp, packet, verdict);
    } else {
      (void)qp.recv.hold.keep(core.hold_pool, qp.recv.expected, packet);
    }
    return false;
  }
  acknowledge(core, qp, packet);
  return true;
}

void note_duplicate(QueuePair& qp, const InPacket& packet) {
  note_understanding(qp, packet);
  qp.recv.has_duplicate = qp.recv.understands;
  qp.recv.duplicate = packet.view.bth.psn;
}

void on_duplicate(Core& core, QueuePair& qp, const InPacket& packet) {
  switch (packet.view.info->operation) {
    case Operation::kSend:
    case Operation::kWrite:
      core.count(Counter::kDuplicateRequest);
      note_duplicate(qp, packet);
      // IBA 9.7.5.1.1: never executed again; answered with the newest PSN so that the peer moves
      // on.
      owe_ack(core, qp);
      return;
    default: read_replies::replay(core, qp, packet); return;
  }
}

// Goes on with what came early, as far as it is in order now. `moved`: something just was.
void drain_held(Core& core, QueuePair& qp, bool moved) {
  while (const InPacket* held = qp.recv.hold.find(qp.recv.expected)) {
    if (!process(core, qp, *held)) return;
    moved = true;
  }
  qp.recv.hold.release_before(core.hold_pool, qp.recv.expected);
  // Something is still missing before what is held: say so, the peer waits for it.
  if (!qp.recv.hold.empty() && (moved || !qp.recv.understands)) nak_missing(core, qp);
}

// An ACK for so many packets that come early, if none of them asks for one.
constexpr uint8_t kEarlyPerAck = 16;

void on_early(Core& core, QueuePair& qp, const InPacket& packet) {
  RecvSide& recv = qp.recv;
  note_understanding(qp, packet);
  const bool first = recv.hold.empty();
  const bool too_early = !recv.understands && flow::applies(qp) &&
                         distance(recv.expected, packet.view.bth.psn) > Hold::kMaxAheadOfOthers;
  const auto kept =
      too_early ? Hold::Kept::kNot : recv.hold.keep(core.hold_pool, recv.expected, packet);
  if (kept == Hold::Kept::kBefore && recv.understands) {
    note_duplicate(qp, packet);
    return owe_ack(core, qp);
  }
  const bool held = kept == Hold::Kept::kNew || kept == Hold::Kept::kBefore;
  core.count(held ? Counter::kOutOfOrderHeld : Counter::kOutOfOrderDropped);
  const bool asked = packet.view.bth.ack_request || ++recv.early >= kEarlyPerAck;
  if (first || asked || !recv.understands) nak_missing(core, qp);
}

// UC: this message cannot be completed; wait for the next First or Only.
void drop_message(Core& core, QueuePair& qp, Counter reason) {
  if (qp.recv.in_message != RecvSide::InMessage::kNone || reason != Counter::kUcMessageDropped) {
    core.count(reason);
  }
  qp.recv.in_message = RecvSide::InMessage::kNone;
  qp.recv.uc_discard = true;
}

}  // namespace

void flush_ack(Core& core, QueuePair& qp) {
  if (!qp.recv.ack_due || qp.recv.replies_pending > 0) return;
  qp.recv.ack_due = false;
  core.count(Counter::kAcksSent);
  if (has_more_to_say(core, qp.recv)) return send_extended_ack(core, qp);
  send_ack(core, qp, wire::syndrome::kAckNoCredits, qp.recv.expected.previous());
}

void on_request(Core& core, QueuePair& qp, const InPacket& packet) {
  const int32_t ahead = distance(qp.recv.expected, packet.view.bth.psn);
  if (ahead < 0) return on_duplicate(core, qp, packet);
  if (ahead > 0) return on_early(core, qp, packet);
  qp.recv.hold.set_port(packet.source_port);
  if (process(core, qp, packet) && !qp.recv.hold.empty()) drain_held(core, qp, true);
}

RunPlace place_of_run(const Core& core, QueuePair& qp, const wire::Run& run) {
  const RecvSide& recv = qp.recv;
  const bool send = run.first.info->operation == Operation::kSend;
  const auto in_message = send ? RecvSide::InMessage::kSend : RecvSide::InMessage::kWrite;
  if (run.first.bth.psn != recv.expected || recv.in_message != in_message || recv.uc_discard ||
      !recv.hold.empty()) {
    return {};
  }
  // Something of the message is left for its Last.
  const uint64_t whole = send ? recv.taken.length : recv.write_length;
  if (recv.received + qp.mtu >= whole) return {};
  if (!send && (qp.attr.access & memory::kRemoteWrite) == 0) return {};
  const auto packets =
      static_cast<uint32_t>(std::min<uint64_t>(run.packets, (whole - 1 - recv.received) / qp.mtu));
  const uint64_t n = uint64_t{packets} * qp.mtu;
  const auto plain =
      send ? core.memory.stretch(qp.receive_pd(), recv.taken.list, recv.received, n, true)
           : core.memory.remote_stretch({qp.pd, qp.qpn}, recv.write_rkey,
                                        RemoteAddr(recv.write_addr.value + recv.received), n,
                                        memory::kRemoteWrite);
  return {&qp, plain.size() == n ? plain.data() : nullptr, packets};
}

bool place(const Core& core, const QueuePair& qp, uint32_t index,
           std::span<const uint8_t> payload) {
  const RecvSide& recv = qp.recv;
  const uint64_t offset = recv.received + uint64_t{index} * qp.mtu;
  const auto fault =
      recv.in_message == RecvSide::InMessage::kSend
          ? core.memory.scatter(qp.receive_pd(), recv.taken.list, offset, payload, false)
          : core.memory.remote_write({qp.pd, qp.qpn}, recv.write_rkey,
                                     RemoteAddr(recv.write_addr.value + offset), payload, false);
  return fault == memory::Fault::kNone;
}

void on_run(Core& core, QueuePair& qp, uint32_t packets, bool ack_request) {
  RecvSide& recv = qp.recv;
  recv.nak_sent = false;
  recv.nak_owed = false;
  recv.received += uint64_t{packets} * qp.mtu;
  recv.expected = recv.expected + packets;
  if (ack_request && is_reliable(qp.type)) owe_ack(core, qp);
}

void after_replies(Core& core, QueuePair& qp) {
  if (qp.recv.nak_sent) return;
  if (!qp.recv.hold.empty()) {
    drain_held(core, qp, false);
  } else if (qp.recv.nak_owed) {
    nak_missing(core, qp);
  }
}

void on_uc_request(Core& core, QueuePair& qp, const InPacket& packet) {
  RecvSide& recv = qp.recv;
  const Psn psn = packet.view.bth.psn;
  const int32_t ahead = distance(recv.expected, psn);
  if (ahead < 0 && ahead >= -kUcDuplicateWindow) {
    core.count(Counter::kDuplicateRequest);
    return;
  }
  const wire::OpcodeInfo& info = *packet.view.info;
  // Its First is what was lost: nothing under way tells that there was a message.
  if (ahead != 0 && recv.in_message == RecvSide::InMessage::kNone && !recv.uc_discard &&
      !info.starts_message()) {
    core.count(Counter::kUcMessageDropped);
  }
  // IBA 9.8.2.2.1: a gap drops the message under way; the next First or Only starts afresh.
  if (ahead != 0) drop_message(core, qp, Counter::kUcMessageDropped);
  recv.expected = psn.next();
  if (info.starts_message()) {
    if (recv.in_message != RecvSide::InMessage::kNone) {
      drop_message(core, qp, Counter::kUcMessageDropped);
    }
    recv.uc_discard = false;
  } else if (recv.uc_discard) {
    return;
  }
  Verdict verdict = check_request(core, qp, packet);
  if (verdict == Verdict::kGood) verdict = execute_data(core, qp, packet);
  if (verdict != Verdict::kGood) {
    drop_message(core, qp, Counter::kUcRequestDropped);
    if (verdict == Verdict::kRemoteOperational) {
      // Not the message's fault but the receive's: kept, it would fail every message from now on.
      complete_receive(qp, packet, WcStatus::kLocalProtection);
      enter_error(core, qp);
    }
    return;
  }
  if (info.ends_message() && (info.operation == Operation::kSend || info.has(wire::kImmDt))) {
    complete_receive(qp, packet, WcStatus::kSuccess);
  }
}

}  // namespace verbena::transport::responder
