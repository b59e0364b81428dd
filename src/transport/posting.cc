// SPDX-License-Identifier: Apache-2.0
#include "transport/posting.h"

#include <algorithm>

#include "base/full_fence.h"
#include "transport/core.h"

namespace verbena::transport::posting {
namespace {

[[nodiscard]] bool fits(const QueuePair& qp, const SendRequest& request, uint64_t length,
                        uint32_t port_mtu) {
  if (qp.type == QpType::kXrcRecv) return false;
  const bool is_inline = (request.flags & kInline) != 0;
  if (is_inline && length > qp.sq.caps().max_inline) return false;
  switch (request.op) {
    case SendOp::kSend:
    case SendOp::kSendImm:
      if (qp.type != QpType::kUd) return length <= kMaxMessageBytes;
      // The standard (C10-93.1.1) has a datagram longer than the port's MTU vanish without an
      // error; one that the caller hears of is better.
      return length <= std::min(port_mtu, mtu_bytes(request.path.largest_mtu));
    case SendOp::kWrite:
    case SendOp::kWriteImm:       return qp.type != QpType::kUd && length <= kMaxMessageBytes;
    case SendOp::kSendInvalidate: return is_reliable(qp.type) && length <= kMaxMessageBytes;
    case SendOp::kRead:
      return is_reliable(qp.type) && !is_inline && length <= kMaxMessageBytes &&
             qp.rules.max_rd_atomic.load(std::memory_order_relaxed) > 0;
    case SendOp::kCompareSwap:
    case SendOp::kFetchAdd:
      return is_reliable(qp.type) && !is_inline && length == 8 &&
             qp.rules.max_rd_atomic.load(std::memory_order_relaxed) > 0;
    case SendOp::kAtomicWrite:
      return is_reliable(qp.type) && length == 8 &&
             qp.rules.max_rd_atomic.load(std::memory_order_relaxed) > 0;
    case SendOp::kLocalInvalidate:
    case SendOp::kBindWindow:
    case SendOp::kCopy:            return qp.type != QpType::kUd && request.list.empty();
    case SendOp::kConfigureKey:
      return qp.type != QpType::kUd && request.list.empty() && request.config != nullptr;
    case SendOp::kFlush: break;
  }
  return false;
}

// Whether the request is valid; gives the message's length. Does not ask for room in the queue.
[[nodiscard]] Result<uint64_t, Error> check(const QueuePair& qp, const SendRequest& request,
                                            uint32_t port_mtu) {
  // Before the list is read: its length is the program's word. Inline data lies in the request
  // itself: one piece of it needs no entry.
  const SendQueueCaps& caps = qp.sq.caps();
  const bool is_inline = (request.flags & kInline) != 0;
  const uint32_t most = is_inline ? std::max<uint32_t>(caps.max_sge, 1) : caps.max_sge;
  if (request.list.size() > most) return fail(Error::kInvalid);
  const uint64_t length = memory::total_bytes(request.list);
  if (!qp.rules.sends.load(std::memory_order_relaxed)) return fail(Error::kInvalid);
  if (request.op == SendOp::kFlush) return fail(Error::kUnsupported);
  if (!fits(qp, request, length, port_mtu)) return fail(Error::kInvalid);
  return length;
}

}  // namespace

Result<void, Error> append_all(QueuePair& qp, std::span<const SendRequest> requests,
                               uint32_t port_mtu) {
  // All of them first, and each once: the rules may change meanwhile.
  for (const SendRequest& request : requests) {
    const auto length = check(qp, request, port_mtu);
    if (!length) return fail(length.error());
  }
  if (requests.size() > qp.sq.room()) return fail(Error::kQueueFull);
  if (!qp.sq.make_room(requests)) return fail(Error::kTooMany);
  for (const SendRequest& request : requests) {
    qp.sq.push(request, memory::total_bytes(request.list));
  }
  return {};
}

Result<void, Error> append(QueuePair& qp, const SendRequest& request, uint32_t port_mtu) {
  const auto length = check(qp, request, port_mtu);
  if (!length) return fail(length.error());
  if (qp.sq.full()) return fail(Error::kQueueFull);
  if (!qp.sq.make_room({&request, 1})) return fail(Error::kTooMany);
  qp.sq.push(request, *length);
  return {};
}

Result<void, Error> append(QueuePair& qp, const RecvRequest& request) {
  // In this order: an XRC target's shared queue is that of the message under way.
  if (!is_for_receives(qp.type) || qp.srq != nullptr ||
      !qp.rules.receives.load(std::memory_order_relaxed)) {
    return fail(Error::kInvalid);
  }
  if (request.list.size() > qp.rq.max_sge()) return fail(Error::kInvalid);
  if (qp.rq.full()) return fail(Error::kQueueFull);
  qp.rq.push(request);
  return {};
}

Result<void, Error> append(SharedRecvQueue& srq, const RecvRequest& request) {
  if (srq.closed) return fail(Error::kInvalid);
  if (request.list.size() > srq.queue.max_sge()) return fail(Error::kInvalid);
  if (srq.queue.full()) return fail(Error::kQueueFull);
  srq.queue.push(request);
  return {};
}

// Either who flushes sees what was appended, or it is seen here that it flushes.
bool must_ring(const QueuePair& qp) {
  full_fence();
  return qp.flushes.load(std::memory_order_relaxed);
}

}  // namespace verbena::transport::posting
