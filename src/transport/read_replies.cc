// SPDX-License-Identifier: Apache-2.0
#include "transport/read_replies.h"

#include <algorithm>
#include <span>

#include "transport/gather_run.h"
#include "transport/packet_writer.h"
#include "transport/qp_error.h"
#include "transport/requester.h"
#include "transport/responder.h"

namespace verbena::transport::read_replies {
namespace {

using wire::Op;
using wire::Operation;

ReadReply& take_place(QueuePair& qp) {
  RecvSide& recv = qp.recv;
  ReadReply& reply = recv.replies[recv.replies_next];
  recv.replies_next = (recv.replies_next + 1) % static_cast<uint32_t>(recv.replies.size());
  if (reply.pending) --recv.replies_pending;  // a duplicate's replay that nobody waits for any more
  reply = ReadReply{};
  reply.first_psn = recv.expected;
  reply.pd = qp.pd;
  return reply;
}

void set_pending(Core& core, QueuePair& qp, ReadReply& reply, uint32_t from, uint32_t end,
                 uint32_t last_bytes) {
  if (!reply.pending) ++qp.recv.replies_pending;
  reply.pending = true;
  reply.from = reply.next = from;
  reply.end = end;
  reply.last_bytes = last_bytes;
  core.make_runnable(qp);
}

// A part that is asked for again while another is being sent. One that it overlaps was asked for
// before, and is sent as it is asked for now; when there is no room the requester must ask again.
void add_part(Core& core, QueuePair& qp, ReadReply& reply, const ReadReply::Part& part) {
  const auto listed = std::span(reply.parts).first(reply.parts_count);
  const auto old = std::ranges::remove_if(
      listed, [&](const ReadReply::Part& other) { return other.overlaps(part.from, part.end); });
  reply.parts_count -= static_cast<uint32_t>(old.size());
  if (part.overlaps(reply.next, reply.end)) {
    set_pending(core, qp, reply, part.from, part.end, part.last_bytes);
  } else if (reply.parts_count < ReadReply::kMaxParts) {
    reply.parts[reply.parts_count++] = part;
  }
}

// It was sent, and what else was asked for follows.
void end_part(Core& core, QueuePair& qp, ReadReply& reply) {
  reply.pending = false;
  reply.fresh = false;
  --qp.recv.replies_pending;
  if (reply.parts_count == 0) return;
  const ReadReply::Part next = reply.parts[0];
  std::ranges::copy(std::span(reply.parts).subspan(1), reply.parts.begin());
  --reply.parts_count;
  set_pending(core, qp, reply, next.from, next.end, next.last_bytes);
}

[[nodiscard]] uint32_t bytes_in_last(uint32_t length, uint32_t mtu) {
  return length == 0 ? 0 : (length - 1) % mtu + 1;
}

void went_out(ReadReply& reply, uint32_t packets) {
  reply.next += packets;
  reply.answered = std::max(reply.answered, reply.next);
}

[[nodiscard]] Op response_opcode(const ReadReply& reply) {
  const bool first = reply.next == reply.from;
  const bool last = reply.next + 1 == reply.end;
  if (first) return last ? Op::kReadResponseOnly : Op::kReadResponseFirst;
  return last ? Op::kReadResponseLast : Op::kReadResponseMiddle;
}

void send_access_nak(Core& core, QueuePair& qp, wire::Psn psn) {
  core.count(Counter::kNakRemoteAccessSent);
  PacketWriter writer(qp, qp.service(), Op::kAcknowledge, psn);
  writer.put(wire::Aeth{wire::syndrome::kNakRemoteAccess, qp.recv.msn});
  writer.send(core, qp.attr.path);
}

// One packet of a reply. False when the memory is gone and the connection ended.
[[nodiscard]] bool send_packet(Core& core, QueuePair& qp, ReadReply& reply) {
  const wire::Psn psn = reply.first_psn + reply.next;
  const wire::Aeth aeth{wire::syndrome::kAckNoCredits, reply.msn};
  if (reply.kind == ReadReply::Kind::kAtomic) {
    PacketWriter writer(qp, qp.service(), Op::kAtomicAcknowledge, psn);
    writer.put(aeth).put(wire::AtomicAckEth{reply.atomic_result});
    writer.send(core, qp.attr.path);
    return true;
  }
  const uint32_t n = reply.next + 1 == reply.end ? reply.last_bytes : qp.mtu;
  memory::Pieces pieces(core.link.staging());
  if (n != 0) {
    const RemoteAddr at(reply.addr.value + uint64_t{reply.next} * qp.mtu);
    if (core.memory.remote_read({reply.pd, qp.qpn}, reply.rkey, at, n, pieces, reply.again()) !=
        memory::Fault::kNone) {
      send_access_nak(core, qp, psn);
      if (!reply.fresh) {
        // A copy of a READ that was answered, and since then its key was withdrawn, rightly. If the
        // requester still waits, the NAK ends it there; if the copy is a late one, it
        // ignores the NAK.
        reply.next = reply.end - 1;
        return true;
      }
      core.events.qp_event(Event::kQpAccessError, qp.qpn);
      enter_error(core, qp);
      return false;
    }
  }
  PacketWriter writer(qp, qp.service(), response_opcode(reply), psn);
  if (wire::opcode_info(writer.bth().opcode).has(wire::kAeth)) writer.put(aeth);
  writer.send(core, qp.attr.path, pieces.list(), pieces.bytes(), /*copy_first=*/true);
  return true;
}

// Middle packets of a reply that leave as one run, up to `most`; gives their number, 0 for none.
[[nodiscard]] uint32_t send_run(Core& core, const QueuePair& qp, ReadReply& reply, uint32_t most) {
  if (reply.next == reply.from || reply.next + 2 >= reply.end) return 0;
  most = std::min(most, reply.end - 1 - reply.next);
  if (reply.again()) most = std::min(most, reply.answered - reply.next);
  const uint32_t packet_bytes = wire::Bth::kBytes + qp.mtu + wire::kIcrcBytes;
  most = core.link.room_for(qp.attr.path, qp.attr.dest_qpn, packet_bytes, most);
  if (most < 2) return 0;
  const RemoteAddr at(reply.addr.value + uint64_t{reply.next} * qp.mtu);
  const memory::RemoteUser user{reply.pd, qp.qpn};
  OutRun run = gather_run(
      core.run_room, qp.mtu, most,
      [&](uint64_t n) -> std::span<uint8_t> {
        if (reply.again()) return {};  // it may be gone: remote_read() knows
        return core.memory.remote_stretch(user, reply.rkey, at, n, memory::kRemoteRead);
      },
      [&](uint32_t n, memory::Pieces& pieces) {
        return core.memory.remote_read(user, reply.rkey, at, n, pieces, reply.again());
      });
  if (run.packets < 2) return 0;
  run.path = &qp.attr.path;
  run.first.opcode = wire::opcode_byte(qp.service(), Op::kReadResponseMiddle);
  run.first.dest_qp = qp.attr.dest_qpn;
  run.first.psn = reply.first_psn + reply.next;
  run.copy_first = true;
  core.link.send_run(run);
  core.count(Counter::kPacketsSent, run.packets);
  core.count(Counter::kRunsSent);
  went_out(reply, run.packets);
  return run.packets;
}

// The newest first: PSNs come round again, and what is kept from the round before is not it.
[[nodiscard]] ReadReply* find(QueuePair& qp, wire::Psn psn) {
  RecvSide& recv = qp.recv;
  const auto places = static_cast<uint32_t>(recv.replies.size());
  for (uint32_t i = 1; i <= places; ++i) {
    ReadReply& reply = recv.replies[(recv.replies_next + places - i) % places];
    if (reply.kind == ReadReply::Kind::kFree) continue;
    if ((psn - reply.first_psn.value()).value() < reply.packets) return &reply;
  }
  return nullptr;
}

}  // namespace

bool has_room(const QueuePair& qp) {
  const RecvSide& recv = qp.recv;
  if (recv.replies.empty()) return false;
  const ReadReply& oldest = recv.replies[recv.replies_next];
  return !(oldest.pending && oldest.fresh);
}

bool set_places(QueuePair& qp, uint32_t places) {
  RecvSide& recv = qp.recv;
  std::vector<ReadReply>& replies = recv.replies;
  std::ranges::rotate(replies, replies.begin() + recv.replies_next);  // the oldest first
  recv.replies_next = 0;
  if (places >= replies.size()) {
    replies.insert(replies.begin(), places - replies.size(), ReadReply{});
    return true;
  }
  const auto forget = std::span(replies).first(replies.size() - places);
  const auto unanswered = [](const ReadReply& reply) { return reply.pending && reply.fresh; };
  if (std::ranges::any_of(forget, unanswered)) return false;
  recv.replies_pending -= static_cast<uint32_t>(std::ranges::count_if(forget, &ReadReply::pending));
  replies.erase(replies.begin(), replies.end() - places);
  return true;
}

Verdict execute(Core& core, QueuePair& qp, const InPacket& packet) {
  RecvSide& recv = qp.recv;
  const memory::RemoteUser user{qp.pd, qp.qpn};
  const Operation operation = packet.view.info->operation;
  uint64_t result = 0;
  if (operation == Operation::kCompareSwap || operation == Operation::kFetchAdd) {
    const wire::AtomicEth eth = packet.view.atomic_eth();
    const auto op = operation == Operation::kCompareSwap ? memory::AtomicOp::kCompareSwap
                                                         : memory::AtomicOp::kFetchAdd;
    const auto original = core.memory.remote_atomic(user, eth.rkey, RemoteAddr(eth.address), op,
                                                    eth.swap_add, eth.compare);
    if (!original) return Verdict::kRemoteAccess;
    result = *original;
  } else if (operation == Operation::kAtomicWrite) {
    const wire::Reth reth = packet.view.reth();
    const auto fault = core.memory.remote_atomic_write(user, reth.rkey, RemoteAddr(reth.address),
                                                       packet.view.payload.first<8>());
    if (fault != memory::Fault::kNone) return Verdict::kRemoteAccess;
  }

  recv.msn = (recv.msn + 1) & 0xffffff;
  ReadReply& reply = take_place(qp);
  reply.fresh = true;
  reply.msn = recv.msn;
  reply.packets = 1;
  if (operation == Operation::kReadRequest) {
    const wire::Reth reth = packet.view.reth();
    reply.kind = ReadReply::Kind::kRead;
    reply.rkey = reth.rkey;
    reply.addr = RemoteAddr(reth.address);
    reply.length = reth.length;
    reply.packets = requester::packets_for(reth.length, qp.mtu);
  } else if (operation == Operation::kAtomicWrite) {
    reply.kind = ReadReply::Kind::kEmpty;
  } else {
    reply.kind = ReadReply::Kind::kAtomic;
    reply.atomic_result = result;
  }
  set_pending(core, qp, reply, 0, reply.packets, bytes_in_last(reply.length, qp.mtu));
  recv.expected = recv.expected + reply.packets;
  return Verdict::kGood;
}

void replay(Core& core, QueuePair& qp, const InPacket& packet) {
  const wire::OpcodeInfo& info = *packet.view.info;
  ReadReply* const reply = find(qp, packet.view.bth.psn);
  const bool read = info.operation == Operation::kReadRequest;
  if (reply == nullptr || read != (reply->kind == ReadReply::Kind::kRead)) {
    core.count(Counter::kDuplicateForgotten);
    return;
  }
  if (!read) {
    core.count(Counter::kDuplicateAtomic);
    if (!reply->fresh) set_pending(core, qp, *reply, 0, 1, 0);
    return;
  }
  // A repeated READ may ask for any part of the original that starts on a packet (IBA 9.7.5.1.2),
  // no more.
  const wire::Reth reth = packet.view.reth();
  const uint32_t from = (packet.view.bth.psn - reply->first_psn.value()).value();
  const uint64_t offset = uint64_t{from} * qp.mtu;
  const bool inside = reth.rkey == reply->rkey && reth.address == reply->addr.value + offset &&
                      offset + reth.length <= reply->length;
  if (!inside) {
    core.count(Counter::kDuplicateForgotten);
    return;
  }
  core.count(Counter::kDuplicateRead);
  if (reply->fresh && from >= reply->next) return;  // it is on its way for the first time
  const ReadReply::Part part{from, from + requester::packets_for(reth.length, qp.mtu),
                             bytes_in_last(reth.length, qp.mtu)};
  if (reply->pending && !reply->fresh) return add_part(core, qp, *reply, part);
  const bool fresh = reply->fresh;
  set_pending(core, qp, *reply, part.from, part.end, part.last_bytes);
  if (fresh) {
    // Asked again while the first answer is still going out: go on to the end of the original.
    reply->end = reply->packets;
    reply->last_bytes = bytes_in_last(reply->length, qp.mtu);
  }
}

void pump(Core& core, QueuePair& qp) {
  RecvSide& recv = qp.recv;
  uint32_t budget = core.tuning.quantum;
  const auto places = static_cast<uint32_t>(recv.replies.size());
  for (uint32_t i = 0; i < places && recv.replies_pending > 0; ++i) {
    ReadReply& reply = recv.replies[(recv.replies_next + i) % places];
    while (reply.pending) {
      if (budget == 0) return core.make_runnable(qp);
      if (!core.link.has_room_towards(qp.attr.path, qp.attr.dest_qpn)) {
        core.crowded = true;
        return core.make_runnable(qp);
      }
      qp.served = true;
      if (const uint32_t run = send_run(core, qp, reply, budget); run != 0) {
        budget -= run;
        continue;
      }
      if (!send_packet(core, qp, reply)) return;
      --budget;
      went_out(reply, 1);
      if (reply.next == reply.end) end_part(core, qp, reply);
    }
  }
  responder::flush_ack(core, qp);
  responder::after_replies(core, qp);
}

}  // namespace verbena::transport::read_replies
