// SPDX-License-Identifier: Apache-2.0
// Messages about a connection that is known, or that their sender believes to be: REP, RTU, MRA,
// REJ, DREQ, DREP. Nothing in them is believed unless it comes from the connection's peer and names
// both ids.
#include <algorithm>

#include "cm/manager.h"
#include "cm/manager_send.h"
#include "cm/peer_facts.h"
#include "cm/times.h"

namespace verbena::cm {
namespace {

std::span<const uint8_t> info_of(const Rej& m) {
  return std::span(m.info).first(std::min<size_t>(m.info_bytes, m.info.size()));
}

}  // namespace

// The connection with our id, if the message is from its peer; nullptr, counted, if it is from
// anybody else. peer_id 0: the sender need not have known its own id.
Connection* Manager::addressed(const From& from, uint32_t our_id, uint32_t peer_id) {
  Connection* const c = table_.find(our_id);
  if (c == nullptr || c->is_sidr()) {
    counters_.add(Counter::kUnknownId);
    return nullptr;
  }
  const bool right_peer = c->destination == from.peer && c->source == from.our;
  const bool right_id = c->remote_id == 0 || peer_id == c->remote_id;
  if (right_peer && right_id) {
    half_open_.answered(from.peer);
    return c;
  }
  counters_.add(Counter::kWrongPeer);
  return nullptr;
}

// REJ to who is not in the table.
void Manager::refuse(const From& from, uint32_t peer_id, RejectReason reason, About about) {
  const Rej m{.local_id = 0, .remote_id = peer_id, .about = about, .reason = reason};
  MadBuffer mad;
  encode({.transaction = from.header.transaction}, m, mad);
  put(from.our, from.peer, mad);
}

void Manager::on(const From& from, const Rep& m) {
  Connection* const c = table_.find(m.remote_id);
  if (c == nullptr) {  // we gave up, or have forgotten that we ever asked
    counters_.add(Counter::kUnknownId);
    refuse(from, m.local_id, RejectReason::kInvalidCommId, About::kRep);
    return;
  }
  if (c->destination != from.peer || c->source != from.our) {
    counters_.add(Counter::kWrongPeer);
    return;
  }
  half_open_.answered(from.peer);
  if (c->state != State::kReqSent) {
    on_rep_again(from, *c, m);
    return;
  }
  using Space = ConnectionTable::Space;
  const Qpn qpn = c->kind == QpKind::kXrc ? Qpn(m.eecn) : m.qpn;
  if (m.local_id == 0 || table_.find_remote(Space::kCommId, from.peer, m.local_id) != nullptr) {
    counters_.add(Counter::kWrongState);
    return;
  }
  if (Connection* const old = table_.find_remote(Space::kQpn, from.peer, qpn.value)) {
    counters_.add(Counter::kStaleConnection);
    refuse(from, m.local_id, RejectReason::kStaleConnection, About::kRep);
    if (old->state == State::kEstablished) {
      lose(*old, RejectReason::kStaleConnection, from.now);
    }
    finish(*c, {.kind = EventKind::kRejected, .reason = RejectReason::kStaleConnection});
    return;
  }
  c->remote_id = m.local_id;
  c->remote_qpn = qpn;
  c->transaction = from.header.transaction;
  table_.index_remote(*c);
  set_state(*c, State::kRepReceived);
  c->says_again = c->response_time;
  expect_again(*c, 0, from.now);
  emit(*c, {.kind = EventKind::kConnectResponse,
            .private_data = m.private_data,
            .service_id = c->service_id,
            .qp_kind = c->kind,
            .qp = peer_facts(m, qpn),
            .target_ack_delay = m.target_ack_delay});
}

void Manager::on_rep_again(const From& from, Connection& c, const Rep& m) {
  if (c.passive || c.is_sidr() || c.remote_id != m.local_id) {
    // To a request that came late and was taken for a new one: it must not wait for our RTU.
    counters_.add(Counter::kUnknownId);
    refuse(from, m.local_id, RejectReason::kInvalidCommId, About::kRep);
    return;
  }
  counters_.add(Counter::kDuplicateRep);
  switch (c.state) {
    case State::kRepReceived: send_mra(c, About::kRep, config_.mra_timeout, from.now); return;
    case State::kEstablished:
    case State::kRefused:     send_last(c); return;
    case State::kTimewait:
      refuse(from, m.local_id, RejectReason::kStaleConnection, About::kRep);
      return;
    default: return;  // a DREQ is on its way, and says more
  }
}

void Manager::on(const From& from, const Rtu& m) {
  Connection* const c = addressed(from, m.remote_id, m.local_id);
  if (c == nullptr) {
    if (table_.find(m.remote_id) == nullptr) {
      refuse(from, m.local_id, RejectReason::kInvalidCommId, About::kOther);
    }
    return;
  }
  if (c->state == State::kRefused) {
    send_last(*c);
    return;
  }
  if (c->state != State::kRepSent) {
    counters_.add(Counter::kDuplicateRtu);
    return;
  }
  timers_.set(*c, kNever);
  set_state(*c, State::kEstablished);
  emit(*c, {.kind = EventKind::kEstablished, .private_data = m.private_data});
}

void Manager::on(const From& from, const Mra& m) {
  Connection* const c = addressed(from, m.remote_id, m.local_id);
  if (c == nullptr) return;
  const bool due = (c->state == State::kReqSent && m.about == About::kReq) ||
                   (c->state == State::kRepSent && m.about == About::kRep);
  if (!due || c->mra_honoured) {
    counters_.add(Counter::kWrongState);
    return;
  }
  counters_.add(Counter::kMraHonoured);
  c->mra_honoured = true;
  const Duration more = std::min(from_code(m.service_timeout), config_.max_patience);
  c->give_up = std::max(c->give_up, from.now + more + c->response_time);
  c->resend_after = c->response_time;
  timers_.set(*c, from.now + c->resend_after);
}

bool Manager::ask_again(Connection& c, Time now) {
  constexpr Duration kFirstPause = 2 * kMillisecond;
  if (now >= c.grace_until) return false;
  counters_.add(Counter::kAskedAgain);
  c.grace_pause = std::max(2 * c.grace_pause, kFirstPause);
  timers_.set(c, std::min(now + c.grace_pause, c.give_up));
  return true;
}

void Manager::on(const From& from, const Rej& m) {
  Connection* const c =
      m.remote_id != 0 ? table_.find(m.remote_id)
                       : table_.find_remote(ConnectionTable::Space::kCommId, from.peer, m.local_id);
  if (c == nullptr || c->is_sidr()) {
    counters_.add(Counter::kUnknownId);
    return;
  }
  const bool right_peer = c->destination == from.peer && c->source == from.our;
  // Who refuses without an entry of its own says 0 for its id: it may do so to a REQ, REP or RTU.
  const bool right_id = c->remote_id == 0 || m.local_id == c->remote_id || m.local_id == 0;
  // And who never learnt our id has not gone further than asking.
  const bool may_lack_id = m.remote_id != 0 || c->is_half_open();
  if (!right_peer || !right_id || !may_lack_id) {
    counters_.add(Counter::kWrongPeer);
    return;
  }
  if (m.remote_id != 0) half_open_.answered(from.peer);
  const Event rejected{.kind = EventKind::kRejected,
                       .private_data = m.private_data,
                       .reason = m.reason,
                       .info = info_of(m)};
  switch (c->state) {
    case State::kReqSent:
      if (m.reason == RejectReason::kInvalidServiceId && ask_again(*c, from.now)) return;
      finish(*c, rejected);
      return;
    case State::kReqReceived:
    case State::kRepSent:
    case State::kRepReceived: finish(*c, rejected); return;
    case State::kEstablished:
    case State::kDreqSent:    {
      Event lost = rejected;
      lost.kind = EventKind::kDisconnected;
      end(*c, lost, from.now);
      return;
    }
    default: counters_.add(Counter::kWrongState); return;
  }
}

void Manager::on(const From& from, const Dreq& m) {
  Drep reply;
  reply.remote_id = m.local_id;
  Connection* const c = table_.find(m.remote_id);
  if (c == nullptr) {  // let the peer have its end
    counters_.add(Counter::kUnknownDreq);
    reply.local_id = m.remote_id;
    MadBuffer mad;
    encode({.transaction = from.header.transaction}, reply, mad);
    put(from.our, from.peer, mad);
    return;
  }
  if (addressed(from, m.remote_id, m.local_id) == nullptr) return;
  if (m.remote_qpn != c->local_qpn) {
    counters_.add(Counter::kWrongPeer);
    return;
  }
  const State state = c->state;
  if (state != State::kRepSent && state != State::kRepReceived && state != State::kEstablished &&
      state != State::kDreqSent && state != State::kTimewait) {
    counters_.add(Counter::kWrongState);
    return;
  }
  reply.local_id = c->id.value;
  c->transaction = from.header.transaction;
  send(*c, reply);
  if (state == State::kTimewait) {
    counters_.add(Counter::kDuplicateDreq);
    return;
  }
  // Its RTU was lost, or this was faster; the peer had the connection all the same.
  if (state == State::kRepSent) emit(*c, {.kind = EventKind::kEstablished});
  const EventKind kind =
      state == State::kDreqSent ? EventKind::kDisconnected : EventKind::kDisconnectRequested;
  end(*c, {.kind = kind, .private_data = m.private_data}, from.now);
}

void Manager::on(const From& from, const Drep& m) {
  Connection* const c = addressed(from, m.remote_id, m.local_id);
  if (c == nullptr) return;
  if (c->state != State::kDreqSent) {
    counters_.add(Counter::kWrongState);
    return;
  }
  end(*c, {.kind = EventKind::kDisconnected, .private_data = m.private_data}, from.now);
}

}  // namespace verbena::cm
