// SPDX-License-Identifier: Apache-2.0
#include "transport/request_packets.h"

#include <algorithm>

#include "transport/packet_writer.h"
#include "transport/selective.h"

namespace verbena::transport::request_packets {
namespace {

using wire::Op;
using wire::Psn;

// Payload of packet `packet`; false when the memory under it is not usable.
[[nodiscard]] bool gather(Core& core, QueuePair& qp, uint64_t number, uint32_t packet,
                          memory::Pieces& pieces) {
  const SendWqe& wqe = qp.sq.at(number);
  const uint64_t offset = uint64_t{packet} * qp.mtu;
  const auto n = static_cast<uint32_t>(std::min<uint64_t>(qp.mtu, wqe.length - offset));
  if (n == 0) return true;
  if ((wqe.flags & kInline) != 0) {
    pieces.add(qp.sq.inline_data(number).subspan(offset, n));
    return true;
  }
  const bool again = (wqe.first_psn + packet).is_before(qp.send.sent_end);
  return core.memory.gather(qp.pd, qp.sq.list(number), offset, n, pieces, again) ==
         memory::Fault::kNone;
}

// The beginning of a request: every one of XRC's names the shared receive queue.
[[nodiscard]] PacketWriter begin_request(const QueuePair& qp, const SendWqe& wqe, Op op, Psn psn) {
  PacketWriter writer(qp, qp.service(), op, psn);
  writer.bth().reserved7 = selective::announcement(qp);
  if (qp.type == QpType::kXrcSend) writer.put(wire::Xrceth{.reserved = 0, .srq = wqe.remote_srq});
  return writer;
}

}  // namespace

Op opcode_of(const SendWqe& wqe, uint32_t packet) {
  const bool first = packet == 0;
  const bool last = packet + 1 == wqe.packets;
  switch (wqe.op) {
    case SendOp::kSend:
      return first ? (last ? Op::kSendOnly : Op::kSendFirst)
                   : (last ? Op::kSendLast : Op::kSendMiddle);
    case SendOp::kSendImm:
      return first ? (last ? Op::kSendOnlyImm : Op::kSendFirst)
                   : (last ? Op::kSendLastImm : Op::kSendMiddle);
    case SendOp::kSendInvalidate:
      return first ? (last ? Op::kSendOnlyInvalidate : Op::kSendFirst)
                   : (last ? Op::kSendLastInvalidate : Op::kSendMiddle);
    case SendOp::kWrite:
      return first ? (last ? Op::kWriteOnly : Op::kWriteFirst)
                   : (last ? Op::kWriteLast : Op::kWriteMiddle);
    case SendOp::kWriteImm:
      return first ? (last ? Op::kWriteOnlyImm : Op::kWriteFirst)
                   : (last ? Op::kWriteLastImm : Op::kWriteMiddle);
    case SendOp::kAtomicWrite:     return Op::kAtomicWrite;
    case SendOp::kRead:            return Op::kReadRequest;
    case SendOp::kCompareSwap:     return Op::kCompareSwap;
    case SendOp::kFetchAdd:        return Op::kFetchAdd;
    case SendOp::kLocalInvalidate:
    case SendOp::kBindWindow:
    case SendOp::kConfigureKey:
    case SendOp::kCopy:
    case SendOp::kFlush:           break;
  }
  VERBENA_CHECK(false && "operation has no packets");
  return Op::kSendOnly;
}

bool send_data(Core& core, QueuePair& qp, uint64_t number, uint32_t packet, bool ack) {
  const SendWqe& wqe = qp.sq.at(number);
  memory::Pieces pieces(core.link.staging());
  if (!gather(core, qp, number, packet, pieces)) return false;
  PacketWriter writer = begin_request(qp, wqe, opcode_of(wqe, packet), wqe.first_psn + packet);
  const wire::OpcodeInfo& info = wire::opcode_info(writer.bth().opcode);
  if (info.has(wire::kReth)) {
    writer.put(wire::Reth{wqe.remote_addr.value, wqe.rkey, static_cast<uint32_t>(wqe.length)});
  }
  if (info.has(wire::kImmDt)) writer.put(wire::ImmDt{wqe.imm_or_invalidate});
  if (info.has(wire::kIeth)) writer.put(wire::Ieth{RKey(wqe.imm_or_invalidate)});
  writer.bth().ack_request = ack;
  // Only a message that consumes a receive can be solicited.
  const bool consumes = wqe.op != SendOp::kWrite && wqe.op != SendOp::kAtomicWrite;
  writer.bth().solicited = (wqe.flags & kSolicited) != 0 && info.ends_message() && consumes;
  writer.send(core, qp.attr.path, pieces.list(), pieces.bytes());
  return true;
}

void send_read_request(Core& core, QueuePair& qp, const SendWqe& wqe, uint32_t from, uint32_t to) {
  const uint64_t offset = uint64_t{from} * qp.mtu;
  const uint64_t end = std::min<uint64_t>(uint64_t{to} * qp.mtu, wqe.length);
  PacketWriter writer = begin_request(qp, wqe, Op::kReadRequest, wqe.first_psn + from);
  writer.put(
      wire::Reth{wqe.remote_addr.value + offset, wqe.rkey, static_cast<uint32_t>(end - offset)});
  writer.bth().ack_request = true;
  writer.send(core, qp.attr.path);
}

void send_atomic(Core& core, QueuePair& qp, const SendWqe& wqe) {
  PacketWriter writer = begin_request(qp, wqe, opcode_of(wqe, 0), wqe.first_psn);
  const bool swap = wqe.op == SendOp::kCompareSwap;
  writer.put(wire::AtomicEth{wqe.remote_addr.value, wqe.rkey, swap ? wqe.swap : wqe.compare_add,
                             swap ? wqe.compare_add : 0});
  writer.bth().ack_request = true;
  writer.send(core, qp.attr.path);
}

}  // namespace verbena::transport::request_packets
