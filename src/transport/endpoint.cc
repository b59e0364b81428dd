// SPDX-License-Identifier: Apache-2.0
#include "transport/endpoint.h"

#include <algorithm>

#include "transport/completer.h"
#include "transport/datagram.h"
#include "transport/flow.h"
#include "transport/marks.h"
#include "transport/qp_error.h"
#include "transport/read_replies.h"
#include "transport/recovery.h"
#include "transport/requester.h"
#include "transport/responder.h"

namespace verbena::transport {
namespace {

// Whether the queue pair's service has such packets; an XRC queue pair has one half of them.
[[nodiscard]] bool is_for(const QueuePair& qp, const wire::OpcodeInfo& info) {
  return qp.service() == info.service &&
         (info.is_response() ? qp.type != QpType::kXrcRecv : qp.type != QpType::kXrcSend);
}

}  // namespace

Endpoint::Endpoint(memory::Domain& memory, PacketSink& link, EventSink& events,
                   RandomSource& random, EndpointLimits limits, Tuning tuning)
    : random_(random),
      limits_(limits),
      tuning_(tuning),
      hold_pool_(tuning.hold_buffers),
      core_{memory,     link,      events,    hold_pool_, counters_, timers_, destinations_,
            open_rate_, ack_list_, run_list_, srqs_,      run_room_, tuning_},
      qps_(limits.max_qps),
      srqs_(limits.max_srqs) {}

Endpoint::~Endpoint() {
  qps_.for_each([](uint32_t, QueuePair* qp) { delete qp; });
  srqs_.for_each([](uint32_t, SharedRecvQueue* srq) { delete srq; });
}

Result<QpQueues, Error> Endpoint::make_queues(const QpInit& init) const {
  const bool sends = init.type != QpType::kXrcRecv;
  const bool receives = is_for_receives(init.type);
  if ((init.send_cq != nullptr) != sends || (init.recv_cq != nullptr) != receives) {
    return fail(Error::kInvalid);
  }
  if ((init.xrcd != XrcdId()) != (init.type == QpType::kXrcRecv)) return fail(Error::kInvalid);
  if (init.srq != nullptr && (!receives || init.srq->cq != nullptr)) {
    return fail(Error::kInvalid);
  }
  if ((!sends && init.send.max_entries != 0) || (!receives && init.max_recv_entries != 0)) {
    return fail(Error::kInvalid);
  }
  if (init.send.max_entries > limits_.max_queue_entries ||
      init.max_recv_entries > limits_.max_queue_entries || init.send.max_sge > limits_.max_sge ||
      init.max_recv_sge > limits_.max_sge || init.send.max_inline > limits_.max_inline) {
    return fail(Error::kInvalid);
  }
  const bool own = init.srq == nullptr;
  return QpQueues{
      SendQueue(init.send, init.type == QpType::kUd),
      RecvQueue(own ? init.max_recv_entries : 0, own ? init.max_recv_sge : 0),
  };
}

Result<Qpn, Error> Endpoint::create_qp(const QpInit& init, Qpn wanted) {
  auto queues = make_queues(init);
  if (!queues) return fail(queues.error());
  return create_qp(init, wanted, *queues);
}

Result<Qpn, Error> Endpoint::create_qp(const QpInit& init, Qpn wanted, QpQueues& queues) {
  if (wanted.value > kQpnMask) return fail(Error::kInvalid);
  if (qps_.full()) return fail(Error::kTooMany);
  const Qpn qpn = wanted.value != 0 ? wanted : Qpn(qps_.draw_free_id(random_));
  if (qps_.find(qpn.value) != nullptr) return fail(Error::kBusy);
  if (init.srq != nullptr && init.srq->closed) return fail(Error::kInvalid);
  auto qp = std::make_unique<QueuePair>(qpn, init, std::move(queues));
  // Any of the domain's queues may serve its messages.
  if (init.type == QpType::kXrcRecv) qp->recv.taken.list.reserve(limits_.max_sge);
  VERBENA_CHECK(qps_.insert(qpn.value, qp.get()));
  if (init.srq != nullptr) ++init.srq->users;
  // The lists never grow on the data path: each holds a queue pair at most once.
  ack_list_.reserve(qps_.size());
  run_list_.reserve(qps_.size());
  run_now_.reserve(qps_.size());
  (void)qp.release();  // the table's now
  return qpn;
}

Result<QpAttr, Error> Endpoint::query_qp(Qpn qpn) const {
  const QueuePair* qp = find(qpn);
  if (qp == nullptr) return fail(Error::kNoSuchQp);
  return qp->attr;
}

void Endpoint::send_owed_acks(QueuePair& qp) {
  if (qp.recv.ack_due && qp.can_receive()) responder::flush_ack(core_, qp);
}

Result<std::unique_ptr<QueuePair>, Error> Endpoint::destroy_qp(Qpn qpn) {
  QueuePair* const raw = qps_.find(qpn.value);
  if (raw == nullptr) return fail(Error::kNoSuchQp);
  if (!groups_.of(*raw).empty()) return fail(Error::kBusy);
  send_owed_acks(*raw);
  reset(core_, *raw);
  std::erase(ack_list_, raw);
  std::erase(run_list_, raw);
  if (run_list_.empty()) core_.crowded = false;
  doorbells_.forget(*raw);
  if (raw->srq != nullptr && raw->type != QpType::kXrcRecv) --raw->srq->users;
  raw->counters.reset();
  // They can be large, and a post that is refused does not look at them.
  const QpQueues freed{std::move(raw->sq), std::move(raw->rq)};
  return std::unique_ptr<QueuePair>(qps_.erase(qpn.value));
}

Result<SharedRecvQueue*, Error> Endpoint::create_srq(PdId pd, uint32_t max_entries,
                                                     uint32_t max_sge, XrcdId xrcd,
                                                     CompletionQueue* cq) {
  if ((xrcd != XrcdId()) != (cq != nullptr)) return fail(Error::kInvalid);
  if (max_entries == 0 || max_entries > limits_.max_queue_entries || max_sge > limits_.max_sge) {
    return fail(Error::kInvalid);
  }
  if (srqs_.full()) return fail(Error::kTooMany);
  const SrqId id(srqs_.draw_free_id(random_));
  auto srq = std::make_unique<SharedRecvQueue>(id, pd, max_entries, max_sge);
  srq->xrcd = xrcd;
  srq->cq = cq;
  VERBENA_CHECK(srqs_.insert(id.value, srq.get()));
  return srq.release();
}

Result<void, Error> Endpoint::arm_srq_limit(SrqId id, uint32_t limit) {
  SharedRecvQueue* const srq = srqs_.find(id.value);
  if (srq == nullptr) return fail(Error::kNoSuchSrq);
  if (limit > srq->queue.max_entries()) return fail(Error::kInvalid);
  srq->limit = limit;
  if (limit != 0 && srq->queue.size() < limit) {
    srq->limit = 0;
    core_.events.srq_event(Event::kSrqLimitReached, id);
  }
  return {};
}

Result<std::unique_ptr<SharedRecvQueue>, Error> Endpoint::destroy_srq(SrqId id) {
  SharedRecvQueue* const srq = srqs_.find(id.value);
  if (srq == nullptr) return fail(Error::kNoSuchSrq);
  if (srq->users != 0) return fail(Error::kBusy);
  if (srq->cq != nullptr) {
    qps_.for_each([srq](uint32_t, QueuePair* qp) {
      if (qp->srq == srq) forget_srq(*qp);
    });
  }
  srq->poster.disown();
  srq->closed = true;
  const RecvQueue freed(std::move(srq->queue));
  return std::unique_ptr<SharedRecvQueue>(srqs_.erase(id.value));
}

Time Endpoint::heard(Qpn qpn) const {
  const QueuePair* const qp = find(qpn);
  return qp != nullptr ? qp->heard_at : kNever;
}

bool Endpoint::ping(Qpn qpn) {
  const QueuePair* const qp = find(qpn);
  if (qp == nullptr || qp->type != QpType::kRc || qp->state() != QpState::kRts) return false;
  if (qp->send.una != qp->send.assign) return false;
  recovery::ping(core_, *qp);
  return true;
}

Result<void, Error> Endpoint::attach_counter(Qpn qpn, OperationCounter& counter,
                                             uint32_t operations) {
  QueuePair* const qp = find(qpn);
  if (qp == nullptr) return fail(Error::kNoSuchQp);
  if ((operations & ~kCountableOps) != 0) return fail(Error::kUnsupported);
  if (operations == 0 || counter.retired) return fail(Error::kInvalid);
  if (qp->state() != QpState::kReset && qp->state() != QpState::kInit) return fail(Error::kInvalid);
  if (qp->counters == nullptr) qp->counters = std::make_unique<AttachedCounters>();
  if (!qp->counters->are_free(operations)) return fail(Error::kBusy);
  qp->counters->attach(counter, operations);
  return {};
}

Result<void, Error> Endpoint::attach(Qpn qpn, const wire::Gid& group) {
  QueuePair* const qp = find(qpn);
  if (qp == nullptr) return fail(Error::kNoSuchQp);
  if (qp->type != QpType::kUd || !group.is_multicast()) return fail(Error::kInvalid);
  return groups_.attach(group, *qp);
}

Result<void, Error> Endpoint::detach(Qpn qpn, const wire::Gid& group) {
  QueuePair* const qp = find(qpn);
  if (qp == nullptr) return fail(Error::kNoSuchQp);
  return groups_.detach(group, *qp);
}

bool Endpoint::is_attached(Qpn qpn, const wire::Gid& group) const {
  const QueuePair* const qp = find(qpn);
  return qp != nullptr && groups_.is_member(group, *qp);
}

std::vector<wire::Gid> Endpoint::groups_of(Qpn qpn) const {
  const QueuePair* const qp = find(qpn);
  return qp != nullptr ? groups_.of(*qp) : std::vector<wire::Gid>();
}

void Endpoint::receive(const InPacket& packet, Time now) {
  counters_.add(Counter::kPacketsReceived);
  const wire::OpcodeInfo& info = *packet.view.info;
  switch (info.service) {
    case wire::Service::kRd:  counters_.add(Counter::kDropRd); return;
    case wire::Service::kCnp: return receive_congestion_notice(packet, now);
    default:                  break;
  }
  if (packet.destination.is_multicast()) return receive_multicast(packet);
  QueuePair* const qp = find(packet.view.bth.dest_qp);
  if (qp == nullptr) return counters_.add(Counter::kDropNoQp);
  if (!is_for(*qp, info)) return counters_.add(Counter::kDropWrongService);
  if (!qp->can_receive()) return counters_.add(Counter::kDropWrongState);
  if (qp->type == QpType::kUd) return datagram::on_datagram(core_, *qp, packet);
  // A connected queue pair hears only its peer (IBA 9.6.1.5): both addresses must be those of its
  // path.
  if (packet.source != qp->attr.path.destination || packet.destination != qp->attr.path.source) {
    return counters_.add(Counter::kDropWrongPeer);
  }
  qp->heard_at = now;
  if (flow::applies(*qp)) flow::on_heard(core_, *qp, now);
  marks::learn(*qp, packet);
  if (marks::is_marked(packet.traffic_class)) marks::on_marked(core_, *qp, info, 1, now);
  if (info.is_response()) {
    qp->send.black_hole.answered = true;
    return completer::on_response(core_, *qp, packet, now);
  }
  if (qp->state() == QpState::kRtr && !qp->recv.established) {
    qp->recv.established = true;
    core_.events.qp_event(Event::kCommunicationEstablished, qp->qpn);
  }
  if (qp->type == QpType::kUc) return responder::on_uc_request(core_, *qp, packet);
  responder::on_request(core_, *qp, packet);
}

// RoCEv2 annex A17.9.3: something that this queue pair sent met congestion on its way.
void Endpoint::receive_congestion_notice(const InPacket& packet, Time now) {
  QueuePair* const qp = find(packet.view.bth.dest_qp);
  if (qp == nullptr) return counters_.add(Counter::kDropCnp);
  // A datagram queue pair has many peers: it is about what goes to this one.
  const bool from_peer = qp->type == QpType::kUd || (packet.source == qp->attr.path.destination &&
                                                     packet.destination == qp->attr.path.source);
  const bool is_open = qp->type == QpType::kUc || qp->type == QpType::kUd;
  const bool believed = from_peer && (is_open ? open_rate_.on_mark(packet.source, now)
                                              : marks::believes(*qp, packet));
  if (!believed) return counters_.add(Counter::kDropCnp);
  counters_.add(Counter::kCongestionNotice);
  if (!is_open) flow::on_mark(*qp, Direction::kOut, now);
}

namespace {

// Another host may have a queue pair of the same number.
[[nodiscard]] bool is_own(const QueuePair& qp, const InPacket& packet) {
  return packet.view.deth().source_qp == qp.qpn && packet.source == qp.send.multicast_source;
}

}  // namespace

// Each member has its copy; the one that sent it too, if it is one and wants it.
void Endpoint::receive_multicast(const InPacket& packet) {
  const wire::OpcodeInfo& info = *packet.view.info;
  if (info.service != wire::Service::kUd) return counters_.add(Counter::kDropWrongService);
  const auto members = groups_.members(packet.destination);
  if (packet.view.bth.dest_qp != kMulticastQpn || members.empty()) {
    return counters_.add(Counter::kDropNoQp);
  }
  for (QueuePair* const qp : members) {
    if (qp->block_own_multicast && is_own(*qp, packet)) continue;
    if (qp->can_receive()) {
      datagram::on_datagram(core_, *qp, packet);
    } else {
      counters_.add(Counter::kDropWrongState);
    }
  }
}

RunPlace Endpoint::place_of(const wire::Run& run, const wire::Gid& source,
                            const wire::Gid& destination) const {
  QueuePair* const qp = find(run.first.bth.dest_qp);
  if (qp == nullptr || !is_for(*qp, *run.first.info) || !qp->can_receive() ||
      source != qp->attr.path.destination || destination != qp->attr.path.source ||
      run.payload_bytes() != qp->mtu) {
    return {};
  }
  return run.first.info->is_response() ? completer::place_of_run(core_, *qp, run)
                                       : responder::place_of_run(core_, *qp, run);
}

bool Endpoint::place(const wire::Run& run, const RunPlace& at, uint32_t index,
                     std::span<const uint8_t> payload) {
  return run.first.info->is_response() ? completer::place(core_, *at.qp, index, payload)
                                       : responder::place(core_, *at.qp, index, payload);
}

void Endpoint::accept_run(const wire::Run& run, QueuePair& qp, uint32_t packets, bool ack_request,
                          uint8_t traffic_class, Time now) {
  counters_.add(Counter::kPacketsReceived, packets);
  counters_.add(Counter::kRunsReceived);
  qp.heard_at = now;
  if (flow::applies(qp)) flow::on_heard(core_, qp, now);
  if (marks::is_marked(traffic_class)) {
    marks::on_marked(core_, qp, *run.first.info, packets, now);
  }
  if (run.first.info->is_response()) {
    completer::on_run(core_, qp, packets, now);
  } else {
    responder::on_run(core_, qp, packets, ack_request);
  }
}

uint32_t Endpoint::receive_run(const wire::Run& run, std::span<const uint8_t> payload,
                               const wire::Gid& source, const wire::Gid& destination,
                               bool ack_request, Time now) {
  const RunPlace place = place_of(run, source, destination);
  const size_t each = run.payload_bytes();
  uint32_t taken = 0;
  if (place.at != nullptr) {
    taken = place.packets;
    memory::store(place.at, payload.first(taken * each), false);
  } else {
    while (taken < place.packets &&
           this->place(run, place, taken, payload.subspan(taken * each, each))) {
      ++taken;
    }
  }
  if (taken != 0) accept_run(run, *place.qp, taken, ack_request && taken == run.packets, 0, now);
  return taken;
}

// One turn for every queue pair that has something to send; those with more are listed again.
//
// Where a receiver's room is short, replies go first: they end what others wait for, while each
// request asks for more of them. Every few rounds the requests do, so that a peer who reads all the
// time does not keep us from writing to it.
//
// After a round in which a receiver had no room, only so many queue pairs as may find some have
// their turn: to ask a thousand of them, each time that there is room for a few, costs more than
// what is sent. The others come first in the next round. Where none of these got through, their
// receivers may not be the ones of the others: these are asked as well.
void Endpoint::run(Time now) {
  constexpr size_t kCrowdedTurns = 64;
  const bool limited = core_.crowded;
  for (size_t left = run_list_.size(); left != 0;) {
    const size_t turns = limited ? std::min(left, kCrowdedTurns) : left;
    left -= turns;
    if (run_turns(turns, now)) break;
  }
}

// The first of them; whether one was served.
bool Endpoint::run_turns(size_t turns, Time now) {
  constexpr uint32_t kRequestsFirstEvery = 4;
  const auto end = run_list_.begin() + static_cast<ptrdiff_t>(turns);
  run_now_.assign(run_list_.begin(), end);
  run_list_.erase(run_list_.begin(), end);
  for (QueuePair* const qp : run_now_) qp->runnable = qp->served = false;
  core_.crowded = false;
  const bool replies_first = ++rounds_ % kRequestsFirstEvery != 0;
  if (replies_first) run_replies();
  for (QueuePair* const qp : run_now_) requester::take_turn(core_, *qp, now);
  if (!replies_first) run_replies();
  const bool served = std::ranges::any_of(run_now_, &QueuePair::served);
  run_now_.clear();
  if (core_.crowded) put_served_last();
  return served;
}

void Endpoint::run_replies() {
  for (QueuePair* const qp : run_now_) {
    if (qp->can_receive()) read_replies::pump(core_, *qp);
  }
}

// Who got nothing this time has the first choice next time.
void Endpoint::put_served_last() {
  const auto served = [](const QueuePair* qp) { return qp->served; };
  std::ranges::copy_if(run_list_, std::back_inserter(run_now_), served);
  std::erase_if(run_list_, served);
  run_list_.insert(run_list_.end(), run_now_.begin(), run_now_.end());
  run_now_.clear();
}

void Endpoint::finish_but_acks(Time now) {
  if (doorbells_.any()) [[unlikely]]
    answer_doorbells(now);
  // Those that were refused go before anything that could take the room from them once more.
  if (acks_refused_) flush_acks();
  if (!run_list_.empty()) run(now);
}

void Endpoint::finish_batch(Time now) {
  finish_but_acks(now);
  flush_acks();
}

// An ACK whose receiver has no room stays owed, and grows by what comes in meanwhile.
void Endpoint::flush_acks() {
  acks_refused_ = false;
  if (ack_list_.empty()) return;
  std::erase_if(ack_list_, [this](QueuePair* const qp) {
    if (qp->can_receive()) {
      if (!core_.link.has_room_towards(qp->attr.path, qp->attr.dest_qpn)) {
        acks_refused_ = true;
        return false;
      }
      responder::flush_ack(core_, *qp);
    }
    qp->recv.in_ack_list = false;
    return true;
  });
}

void Endpoint::advance(Time now) {
  while (QueuePair* const qp = timers_.pop_due(now)) {
    if (is_reliable(qp->type)) {
      recovery::on_timer(core_, *qp, now);
    } else {
      requester::pump(core_, *qp, now);
    }
  }
  while (Destination* const destination = destinations_.timers().pop_due(now)) {
    flow::on_timer(core_, *destination, now);
  }
  finish_batch(now);
}

Time Endpoint::next_deadline() const {
  return run_list_.empty() && !acks_refused_ ? next_timer() : 0;
}

}  // namespace verbena::transport
