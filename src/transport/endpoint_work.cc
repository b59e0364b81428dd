// SPDX-License-Identifier: Apache-2.0
// Endpoint: what a caller asks of one queue pair: changing its attributes and posting sends.
#include <algorithm>

#include "transport/completer.h"
#include "transport/endpoint.h"
#include "transport/flow.h"
#include "transport/posting.h"
#include "transport/qp_error.h"
#include "transport/read_replies.h"
#include "transport/requester.h"

namespace verbena::transport {
namespace {

[[nodiscard]] bool values_allowed(const QpAttr& attr, uint32_t mask, const EndpointLimits& limits) {
  if ((mask & kAttrMtu) != 0 && (attr.mtu < Mtu::k256 || attr.mtu > Mtu::k4096)) return false;
  if ((mask & kAttrTimeout) != 0 && attr.timeout > 31) return false;
  if ((mask & kAttrRetryCount) != 0 && attr.retry_count > 7) return false;
  if ((mask & kAttrRnrRetry) != 0 && attr.rnr_retry > 7) return false;
  if ((mask & kAttrMinRnrTimer) != 0 && attr.min_rnr_timer > 31) return false;
  if ((mask & kAttrMaxRdAtomic) != 0 && attr.max_rd_atomic > limits.max_rd_atomic) return false;
  if ((mask & kAttrMaxDestRdAtomic) != 0 && attr.max_dest_rd_atomic > limits.max_rd_atomic)
    return false;
  if ((mask & kAttrDestQpn) != 0 && attr.dest_qpn.value > kQpnMask) return false;
  // Alternate paths and migration are not offered (no RoCE device does).
  return (mask & (kAttrAltPath | kAttrPathMigration | kAttrRateLimit | kAttrCap)) == 0;
}

void copy_values(QpAttr& to, const QpAttr& from, uint32_t mask) {
  if ((mask & kAttrSqdNotify) != 0) to.sqd_notify = from.sqd_notify;
  if ((mask & kAttrAccess) != 0) to.access = from.access;
  if ((mask & kAttrPkeyIndex) != 0) to.pkey_index = from.pkey_index;
  if ((mask & kAttrPort) != 0) to.port = from.port;
  if ((mask & kAttrQkey) != 0) to.qkey = from.qkey;
  if ((mask & kAttrPath) != 0) to.path = from.path;
  if ((mask & kAttrMtu) != 0) to.mtu = from.mtu;
  if ((mask & kAttrTimeout) != 0) to.timeout = from.timeout;
  if ((mask & kAttrRetryCount) != 0) to.retry_count = from.retry_count;
  if ((mask & kAttrRnrRetry) != 0) to.rnr_retry = from.rnr_retry;
  if ((mask & kAttrRqPsn) != 0) to.rq_psn = from.rq_psn;
  if ((mask & kAttrSqPsn) != 0) to.sq_psn = from.sq_psn;
  if ((mask & kAttrMaxRdAtomic) != 0) to.max_rd_atomic = from.max_rd_atomic;
  if ((mask & kAttrMaxDestRdAtomic) != 0) to.max_dest_rd_atomic = from.max_dest_rd_atomic;
  if ((mask & kAttrMinRnrTimer) != 0) to.min_rnr_timer = from.min_rnr_timer;
  if ((mask & kAttrDestQpn) != 0) to.dest_qpn = from.dest_qpn;
}

void start_receiving(QueuePair& qp) {
  qp.recv.expected = qp.attr.rq_psn;
  if (is_reliable_responder(qp.type))
    qp.recv.replies.assign(qp.attr.max_dest_rd_atomic, ReadReply{});
}

void start_sending(QueuePair& qp, const FlightLimits& limits) {
  SendSide& send = qp.send;
  send.una = send.sent_end = send.assign = send.requested_end = send.resent_end = qp.attr.sq_psn;
  send.retries_left = qp.attr.retry_count;
  send.rnr_left = qp.attr.rnr_retry;
  send.window.limits = limits;
  // To other hosts it is the destination's window that grows.
  send.window.allowed = flow::applies(qp) ? limits.max_bytes : limits.initial_bytes;
}

}  // namespace

Result<void, Error> Endpoint::modify_qp(Qpn qpn, const QpAttr& attr, uint32_t mask, Time now) {
  QueuePair* const qp = find(qpn);
  if (qp == nullptr) return fail(Error::kNoSuchQp);
  const QpState from = qp->state();
  if ((mask & kAttrCurState) != 0 && attr.cur_state != from) return fail(Error::kInvalid);
  const QpState to = (mask & kAttrState) != 0 ? attr.state : from;
  if (!transition_allowed(qp->type, from, to, mask)) return fail(Error::kInvalid);
  if (!values_allowed(attr, mask, limits_)) return fail(Error::kInvalid);

  if (to == QpState::kReset || to == QpState::kErr) send_owed_acks(*qp);
  if (to == QpState::kReset) {
    reset(core_, *qp);
    return {};
  }
  if (to == QpState::kErr) {
    enter_error(core_, *qp);
    return {};
  }
  // SQD -> SQD changes the path or limits only once what was under way is done.
  if (from == QpState::kSqd && to == QpState::kSqd && !completer::is_drained(*qp)) {
    return fail(Error::kInvalid);
  }
  if (from == QpState::kSqd && (mask & kAttrMaxDestRdAtomic) != 0 &&
      !read_replies::set_places(*qp, attr.max_dest_rd_atomic)) {
    return fail(Error::kBusy);
  }
  copy_values(qp->attr, attr, mask);
  qp->set_state(to);
  qp->mtu = mtu_bytes(qp->attr.mtu);
  if ((mask & kAttrRetryCount) != 0) qp->send.retries_left = qp->attr.retry_count;
  if ((mask & kAttrRnrRetry) != 0) qp->send.rnr_left = qp->attr.rnr_retry;
  if (from == QpState::kInit && to == QpState::kRtr) start_receiving(*qp);
  if ((mask & kAttrPath) != 0 && is_reliable(qp->type)) {
    flow::leave(core_, *qp);
    if (!core_.link.paces(qp->attr.path, qp->attr.dest_qpn)) flow::join(core_, *qp);
  }
  if (from == QpState::kRtr && to == QpState::kRts) {
    start_sending(*qp, flow::applies(*qp) ? tuning_.flight : tuning_.paced);
  }
  if (from == QpState::kRts && to == QpState::kSqd) {
    // Asked for with each transition anew: an attribute that the mask does not name says nothing.
    qp->attr.sqd_notify = (mask & kAttrSqdNotify) != 0 && attr.sqd_notify;
    qp->send.drained_notified = !qp->attr.sqd_notify;
    completer::notify_if_drained(core_, *qp);
  }
  // What was found meanwhile, the program has seen.
  if (from == QpState::kSqd && to == QpState::kRts) qp->send.signature_stop = false;
  requester::pump(core_, *qp, now);
  return {};
}

bool Endpoint::has_posted(Qpn qpn) const {
  const QueuePair* const qp = find(qpn);
  return qp != nullptr && (!qp->sq.empty() || !qp->rq.empty() || qp->recv.taken.present);
}

Result<uint32_t, Error> Endpoint::cancel_sends(Qpn qpn, uint64_t wr_id) {
  QueuePair* const qp = find(qpn);
  if (qp == nullptr) return fail(Error::kNoSuchQp);
  if (qp->state() != QpState::kSqd) return fail(Error::kInvalid);
  uint32_t cancelled = 0;
  for (uint64_t number = qp->sq.head(); number < qp->sq.tail(); ++number) {
    SendWqe& wqe = qp->sq.at(number);
    if (wqe.started || wqe.cancelled || wqe.wr_id != wr_id) continue;
    wqe.cancelled = true;
    ++cancelled;
  }
  return cancelled;
}

Result<void, Error> Endpoint::post_send(Qpn qpn, const SendRequest& request, Time now) {
  QueuePair* const qp = find(qpn);
  if (qp == nullptr) return fail(Error::kNoSuchQp);
  const auto appended = posting::append(*qp, request, tuning_.port_mtu);
  if (appended) on_posted(*qp, now);
  return appended;
}

Result<void, Error> Endpoint::post_recv(Qpn qpn, const RecvRequest& request) {
  QueuePair* const qp = find(qpn);
  if (qp == nullptr) return fail(Error::kNoSuchQp);
  const auto appended = posting::append(*qp, request);
  if (appended && qp->state() == QpState::kErr) flush_recv_queue(core_, *qp);
  return appended;
}

Result<void, Error> Endpoint::post_srq_recv(SrqId id, const RecvRequest& request) {
  SharedRecvQueue* const srq = srqs_.find(id.value);
  if (srq == nullptr) return fail(Error::kNoSuchSrq);
  return posting::append(*srq, request);
}

void Endpoint::on_posted(QueuePair& qp, Time now) {
  const QpState state = qp.state();
  // What was appended without the endpoint is gone, and perhaps the queue pair with it.
  if (state == QpState::kReset) return;
  if (state == QpState::kErr || state == QpState::kSqe) {
    flush_send_queue(qp);
  } else {
    requester::pump(core_, qp, now);
  }
}

void Endpoint::on_posted_receives(QueuePair& qp) {
  if (qp.state() == QpState::kErr && !qp.rq.empty()) flush_recv_queue(core_, qp);
}

void Endpoint::answer_doorbells(Time now) {
  doorbells_.answer_all([&](QueuePair& qp) {
    on_posted_receives(qp);
    on_posted(qp, now);
  });
}

}  // namespace verbena::transport
