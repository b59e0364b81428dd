// SPDX-License-Identifier: Apache-2.0
#include "transport/qp_error.h"

#include "transport/flow.h"

namespace verbena::transport {
namespace {

void stop_sending(Core& core, QueuePair& qp) {
  core.timers.remove(qp);
  flow::stop(core, qp);
  qp.send.probe_at = kNever;
  qp.send.timeout_at = kNever;
  qp.send.rnr_until = 0;
  qp.send.hold.clear(core.hold_pool);
  qp.send.cursor = qp.sq.head();
  qp.send.cursor_packet = 0;
}

void report_flushed_receive(QueuePair& qp) {
  qp.count(CountedOp::kRecv, WcStatus::kFlushed, 0);
  qp.recv_cq->push({.wr_id = qp.recv.taken.wr_id,
                    .status = WcStatus::kFlushed,
                    .opcode = WcOpcode::kRecv,
                    .qpn = qp.qpn});
  qp.recv.taken.present = false;
}

void stop_receiving(Core& core, QueuePair& qp) {
  RecvSide& recv = qp.recv;
  recv.hold.clear(core.hold_pool);
  recv.ack_due = false;
  recv.in_message = RecvSide::InMessage::kNone;
  recv.replies_pending = 0;
  for (ReadReply& reply : recv.replies) reply = {};
}

}  // namespace

// These flush what is there now: the queue's owner may post as fast as it is flushed, and rings for
// what it posts from here on.
void flush_send_queue(QueuePair& qp) {
  for (uint64_t left = qp.sq.size(); left != 0; --left) {
    const SendWqe& wqe = qp.sq.at(qp.sq.head());
    qp.count(wqe.op, WcStatus::kFlushed, 0);
    qp.send_cq->push({.wr_id = wqe.wr_id,
                      .status = WcStatus::kFlushed,
                      .opcode = WcOpcode::kSend,
                      .qpn = qp.qpn});
    qp.sq.pop_head();
  }
  qp.send.cursor = qp.sq.head();
  qp.send.cursor_packet = 0;
}

void flush_recv_queue(Core& core, QueuePair& qp) {
  if (qp.recv.taken.present) report_flushed_receive(qp);
  for (uint32_t left = qp.rq.size(); left != 0; --left) {
    qp.rq.take(qp.recv.taken);
    report_flushed_receive(qp);
  }
  // IBA 10.2.9.4: with a shared queue nobody else says that no more receives of this QP will
  // complete.
  if (qp.srq != nullptr && qp.type != QpType::kXrcRecv)
    core.events.qp_event(Event::kQpLastWqeReached, qp.qpn);
}

void enter_error(Core& core, QueuePair& qp) {
  if (qp.state() == QpState::kErr) return;
  qp.set_state(QpState::kErr);
  stop_sending(core, qp);
  stop_receiving(core, qp);
  flush_send_queue(qp);
  flush_recv_queue(core, qp);
}

void enter_send_error(Core& core, QueuePair& qp) {
  qp.set_state(QpState::kSqe);
  stop_sending(core, qp);
  flush_send_queue(qp);
}

void forget_srq(QueuePair& qp) {
  qp.srq = nullptr;
  qp.recv_cq = nullptr;
  qp.recv.taken.present = false;
}

void reset(Core& core, QueuePair& qp) {
  // Or what is posted this moment would be in the queue of the next connection; and a queue pair
  // that is destroyed is not to be touched any more.
  qp.send_poster.disown();
  qp.recv_poster.disown();
  stop_sending(core, qp);
  flow::leave(core, qp);
  stop_receiving(core, qp);
  qp.sq.clear();
  qp.rq.clear();
  if (qp.type == QpType::kXrcRecv) forget_srq(qp);
  qp.attr = QpAttr{};
  qp.set_state(QpState::kReset);
  qp.send = SendSide{};
  const bool listed = qp.recv.in_ack_list;
  TakenReceive taken = std::move(qp.recv.taken);
  taken.present = false;
  qp.recv = RecvSide{};
  qp.recv.taken = std::move(taken);
  qp.recv.in_ack_list = listed;
  qp.send.cursor = qp.sq.head();
}

}  // namespace verbena::transport
