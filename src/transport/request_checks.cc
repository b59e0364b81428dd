// SPDX-License-Identifier: Apache-2.0
#include "transport/request_checks.h"

#include "transport/read_replies.h"

namespace verbena::transport {
namespace {

using wire::Operation;
using wire::Position;

// IBA 9.7.4.1.2: a message runs First, Middle..., Last, and nothing else in between.
[[nodiscard]] bool in_sequence(const RecvSide& recv, const wire::OpcodeInfo& info) {
  const bool send = info.operation == Operation::kSend;
  const bool write = info.operation == Operation::kWrite;
  switch (recv.in_message) {
    case RecvSide::InMessage::kNone:  return info.starts_message();
    case RecvSide::InMessage::kSend:  return send && !info.starts_message();
    case RecvSide::InMessage::kWrite: return write && !info.starts_message();
  }
  return false;
}

// IBA 9.7.4.1.3: what the queue pair lets its peer do.
[[nodiscard]] bool operation_allowed(const QueuePair& qp, Operation operation) {
  const uint32_t access = qp.attr.access;
  switch (operation) {
    case Operation::kSend:        return true;
    case Operation::kWrite:
    case Operation::kAtomicWrite: return (access & memory::kRemoteWrite) != 0;
    case Operation::kReadRequest: return (access & memory::kRemoteRead) != 0;
    case Operation::kCompareSwap:
    case Operation::kFetchAdd:    return (access & memory::kRemoteAtomic) != 0;
    default:                      return false;
  }
}

[[nodiscard]] bool consumes_receive(const wire::OpcodeInfo& info) {
  if (info.operation == Operation::kSend) return info.starts_message();
  return info.operation == Operation::kWrite && info.has(wire::kImmDt);
}

// IBA 9.7.4.1.6: First and Middle are full, Last is not empty, and a message is as long as it said.
[[nodiscard]] Verdict check_length(const QueuePair& qp, const InPacket& packet) {
  const wire::OpcodeInfo& info = *packet.view.info;
  const size_t payload = packet.view.payload.size();
  if (payload > qp.mtu) return Verdict::kInvalidRequest;
  if (!info.ends_message() && payload != qp.mtu) return Verdict::kInvalidRequest;
  if (info.position == Position::kLast && payload == 0) return Verdict::kInvalidRequest;

  const uint64_t so_far = (info.starts_message() ? 0 : qp.recv.received) + payload;
  switch (info.operation) {
    case Operation::kSend:
      if (so_far > kMaxMessageBytes) return Verdict::kInvalidRequest;
      return so_far > qp.recv.taken.length ? Verdict::kTooLong : Verdict::kGood;
    case Operation::kWrite: {
      const uint64_t whole =
          info.starts_message() ? packet.view.reth().length : qp.recv.write_length;
      if (whole > kMaxMessageBytes) return Verdict::kInvalidRequest;
      const bool fits = info.ends_message() ? so_far == whole : so_far < whole;
      return fits ? Verdict::kGood : Verdict::kInvalidRequest;
    }
    case Operation::kReadRequest:
      return packet.view.reth().length > kMaxMessageBytes ? Verdict::kInvalidRequest
                                                          : Verdict::kGood;
    case Operation::kAtomicWrite:
      return packet.view.reth().length == 8 && (packet.view.reth().address & 7) == 0
                 ? Verdict::kGood
                 : Verdict::kInvalidRequest;
    case Operation::kCompareSwap:
    case Operation::kFetchAdd:
      // IBA 9.4.5: misaligned atomics are an invalid request, whatever the key says.
      return (packet.view.atomic_eth().address & 7) == 0 ? Verdict::kGood
                                                         : Verdict::kInvalidRequest;
    default: return Verdict::kGood;
  }
}

// IBA 9.7.4.1.5: the whole range is checked with the first packet that names it.
[[nodiscard]] Verdict check_rkey(Core& core, const QueuePair& qp, const InPacket& packet) {
  const memory::RemoteUser user{qp.pd, qp.qpn};
  const wire::OpcodeInfo& info = *packet.view.info;
  memory::Fault fault = memory::Fault::kNone;
  if (info.has(wire::kReth)) {
    const wire::Reth reth = packet.view.reth();
    const uint32_t needed =
        info.operation == Operation::kReadRequest ? memory::kRemoteRead : memory::kRemoteWrite;
    fault =
        core.memory.check_remote(user, reth.rkey, RemoteAddr(reth.address), reth.length, needed);
  } else if (info.has(wire::kAtomicEth)) {
    const wire::AtomicEth atomic = packet.view.atomic_eth();
    fault = core.memory.check_remote(user, atomic.rkey, RemoteAddr(atomic.address), 8,
                                     memory::kRemoteAtomic);
  }
  return fault == memory::Fault::kNone ? Verdict::kGood : Verdict::kRemoteAccess;
}

// XRC: each request names the shared receive queue whose protection domain it acts in, and whose
// receives it takes. It is one of the target's domain, and the same throughout a message.
[[nodiscard]] bool turn_to_srq(const Core& core, QueuePair& qp, const InPacket& packet) {
  SharedRecvQueue* const srq = core.srqs.find(packet.view.xrceth().srq.value);
  if (srq == nullptr || srq->cq == nullptr || srq->xrcd != qp.xrcd) return false;
  if (qp.srq == srq) return true;
  if (qp.recv.in_message != RecvSide::InMessage::kNone) return false;
  qp.srq = srq;
  qp.pd = srq->pd;
  qp.recv_cq = srq->cq;
  return true;
}

}  // namespace

bool take_receive(Core& core, QueuePair& qp) {
  if (qp.recv.taken.present) return true;  // kept from a message that was dropped (UC)
  RecvQueue& queue = qp.receive_queue();
  if (queue.empty()) return false;
  queue.take(qp.recv.taken);
  if (qp.srq != nullptr && qp.srq->limit != 0 && queue.size() < qp.srq->limit) {
    qp.srq->limit = 0;  // once; the owner arms it again
    core.events.srq_event(Event::kSrqLimitReached, qp.srq->id);
  }
  return true;
}

Verdict check_request(Core& core, QueuePair& qp, const InPacket& packet) {
  const wire::OpcodeInfo& info = *packet.view.info;
  if (qp.type == QpType::kXrcRecv && !turn_to_srq(core, qp, packet)) {
    return Verdict::kInvalidRequest;
  }
  if (!in_sequence(qp.recv, info)) return Verdict::kInvalidRequest;
  if (!operation_allowed(qp, info.operation)) return Verdict::kInvalidRequest;
  if (consumes_receive(info) && !take_receive(core, qp)) return Verdict::kNotReady;
  const bool wants_reply =
      info.operation != Operation::kSend && info.operation != Operation::kWrite;
  if (wants_reply && !read_replies::has_room(qp)) return Verdict::kInvalidRequest;
  if (const Verdict verdict = check_length(qp, packet); verdict != Verdict::kGood) return verdict;
  return check_rkey(core, qp, packet);
}

}  // namespace verbena::transport
