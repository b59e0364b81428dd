// SPDX-License-Identifier: Apache-2.0
#include "transport/datagram.h"

#include <algorithm>
#include <array>

#include "transport/packet_writer.h"
#include "transport/request_checks.h"

namespace verbena::transport::datagram {
namespace {

// IPv6-shaped, IPv4 addresses mapped: what programs that parse it agree on.
//  | version 6 | traffic class |   flow label 0     |
//  |   payload bytes           | next 0x1b | hops   |
//  |   source GID, destination GID                  |
std::array<uint8_t, kGrhBytes> grh_of(const InPacket& packet) {
  std::array<uint8_t, kGrhBytes> grh{};
  store_be32(grh.data(), 0x60000000u | (uint32_t{packet.traffic_class} << 20));
  store_be16(grh.data() + 4,
             static_cast<uint16_t>(packet.view.info->header_bytes + packet.view.payload.size() +
                                   packet.view.bth.pad_bytes + wire::kIcrcBytes));
  grh[6] = 0x1b;  // IBA transport
  grh[7] = packet.hop_limit;
  std::ranges::copy(packet.source.bytes, grh.begin() + 8);
  std::ranges::copy(packet.destination.bytes, grh.begin() + 24);
  return grh;
}

}  // namespace

bool send(Core& core, QueuePair& qp, uint64_t number) {
  const SendWqe& wqe = qp.sq.at(number);
  const DatagramTarget& target = qp.sq.datagram(number);
  memory::Pieces pieces(core.link.staging());
  if ((wqe.flags & kInline) != 0) {
    pieces.add(qp.sq.inline_data(number));
  } else if (core.memory.gather(qp.pd, qp.sq.list(number), 0, static_cast<uint32_t>(wqe.length),
                                pieces) != memory::Fault::kNone) {
    return false;
  }
  const bool imm = wqe.op == SendOp::kSendImm;
  PacketWriter writer(qp, wire::Service::kUd, imm ? wire::Op::kSendOnlyImm : wire::Op::kSendOnly,
                      wqe.first_psn);
  writer.bth().dest_qp = target.qpn;
  writer.bth().solicited = (wqe.flags & kSolicited) != 0;
  // IBA 10.2.5: a Q_Key with its top bit set is privileged: the queue pair's own is used instead.
  const bool own = (target.qkey & 0x80000000u) != 0;
  writer.put(wire::Deth{own ? qp.attr.qkey : target.qkey, 0, qp.qpn});
  if (imm) writer.put(wire::ImmDt{wqe.imm_or_invalidate});
  if (target.path.destination.is_multicast()) qp.send.multicast_source = target.path.source;
  writer.send(core, target.path, pieces.list(), pieces.bytes());
  return true;
}

void on_datagram(Core& core, QueuePair& qp, const InPacket& packet) {
  const wire::Deth deth = packet.view.deth();
  if (deth.qkey != qp.attr.qkey) {
    core.count(Counter::kUdBadQkey);
    return;
  }
  const RecvQueue& queue = qp.receive_queue();
  if (queue.empty()) {
    core.count(Counter::kUdNoReceive);
    return;
  }
  const size_t payload = packet.view.payload.size();
  if (payload > core.tuning.port_mtu || queue.peek_length() < kGrhBytes + payload) {
    core.count(Counter::kUdTooLong);
    return;
  }
  if (!take_receive(core, qp)) return;
  TakenReceive& taken = qp.recv.taken;
  memory::Fault fault = core.memory.scatter(qp.receive_pd(), taken.list, 0, grh_of(packet), false);
  if (fault == memory::Fault::kNone && payload != 0) {
    fault = core.memory.scatter(qp.receive_pd(), taken.list, kGrhBytes, packet.view.payload, true);
  }
  taken.present = false;
  const bool imm = packet.view.info->has(wire::kImmDt);
  const bool good = fault == memory::Fault::kNone;
  if (!good) core.count(Counter::kUdReceiveFault);
  const WcStatus status = good ? WcStatus::kSuccess : WcStatus::kLocalProtection;
  qp.count(CountedOp::kRecv, status, kGrhBytes + payload);
  qp.recv_cq->push({.wr_id = taken.wr_id,
                    .status = status,
                    .opcode = WcOpcode::kRecv,
                    .solicited = packet.view.bth.solicited,
                    .flags = kWcGrh | (imm ? uint32_t{kWcWithImm} : 0),
                    .byte_len = static_cast<uint32_t>(kGrhBytes + payload),
                    .imm_or_rkey = imm ? packet.view.imm().value : 0,
                    .qpn = qp.qpn,
                    .source_qpn = deth.source_qp});
}

}  // namespace verbena::transport::datagram
