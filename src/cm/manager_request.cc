// SPDX-License-Identifier: Apache-2.0
// How a connection begins: connect() and REQ at one end, the request's arrival and accept() at the
// other, establish().
#include <algorithm>
#include <utility>

#include "cm/fill.h"
#include "cm/manager.h"
#include "cm/manager_send.h"
#include "cm/peer_facts.h"
#include "cm/times.h"

namespace verbena::cm {
namespace {

constexpr uint16_t kPermissiveLid = 0xffff;
constexpr uint8_t kXrcTransport = 3;
constexpr uint8_t kXrcExtended = 1;

std::optional<QpKind> kind_of(const Req& m) {
  if (m.transport_service == 0) return QpKind::kRc;
  if (m.transport_service == 1) return QpKind::kUc;
  if (m.transport_service == kXrcTransport && m.extended_transport == kXrcExtended) {
    return QpKind::kXrc;
  }
  return {};
}

bool is_mtu(uint8_t code) { return code >= 1 && code <= 5; }

bool makes_sense(const ConnectParams& p) {
  return !p.source.is_zero() && !p.destination.is_zero() && p.qp.qpn.value <= kQpnMask &&
         p.retry_count <= 7 && p.qp.rnr_retry_count <= 7 && is_mtu(p.mtu) &&
         p.flow_label < (1u << 20) && p.service_level < 16 && p.max_cm_retries <= 15 &&
         p.packet_life_time <= kMaxTimeCode && p.local_ack_timeout <= kMaxTimeCode &&
         p.response_timeout <= kMaxTimeCode;
}

Req make_req(const ConnectParams& p, CommId id, uint64_t ca_guid) {
  Req m{.local_id = id.value,
        .service_id = p.service_id,
        .ca_guid = ca_guid,
        .qkey = p.qp.qkey,
        .qpn = p.qp.qpn,
        .responder_resources = p.qp.responder_resources,
        .initiator_depth = p.qp.initiator_depth,
        .remote_response_timeout = p.response_timeout,
        .flow_control = p.qp.flow_control,
        .psn = p.qp.psn,
        .local_response_timeout = p.response_timeout,
        .retry_count = p.retry_count,
        .pkey = p.pkey,
        .mtu = p.mtu,
        .rnr_retry_count = p.qp.rnr_retry_count,
        .max_cm_retries = p.max_cm_retries,
        .srq = p.qp.srq,
        .path = {.local_lid = kPermissiveLid,
                 .remote_lid = kPermissiveLid,
                 .local = p.source,
                 .remote = p.destination,
                 .flow_label = p.flow_label,
                 .traffic_class = p.traffic_class,
                 .hop_limit = p.hop_limit,
                 .service_level = p.service_level,
                 .local_ack_timeout = p.local_ack_timeout}};
  if (p.kind == QpKind::kUc) m.transport_service = 1;
  if (p.kind == QpKind::kXrc) {
    m.transport_service = kXrcTransport;
    m.extended_transport = kXrcExtended;
    // An initiator answers nothing, and its retries are its own affair: Linux leaves these out.
    m.responder_resources = 0;
    m.retry_count = 0;
    m.rnr_retry_count = 0;
    m.srq = false;
  }
  return m;
}

Event request_event(const Req& m, const Listener& listener,
                    const std::optional<AddressHeader>& addresses) {
  return {.kind = EventKind::kConnectRequest,
          .private_data = user_data(m.private_data, addresses),
          .listener = listener.id,
          .listener_context = listener.params.context,
          .service_id = m.service_id,
          .addresses = addresses,
          .qp_kind = *kind_of(m),
          .qp = peer_facts(m, m.qpn),
          .retry_count = m.retry_count,
          .mtu = m.mtu,
          .traffic_class = m.path.traffic_class,
          .flow_label = m.path.flow_label,
          .hop_limit = m.path.hop_limit,
          .service_level = m.path.service_level,
          .pkey = m.pkey,
          .local_ack_timeout = m.path.local_ack_timeout};
}

}  // namespace

Result<CommId, Error> Manager::connect(const ConnectParams& p, Time now) {
  if (!makes_sense(p)) return fail(Error::kInvalid);
  std::array<uint8_t, kReqPrivateBytes> private_data{};
  if (!fill(private_data, p.addresses, p.private_data)) return fail(Error::kTooLong);
  if (table_.full()) return fail(Error::kTooMany);
  Connection& c = table_.add();
  c.kind = p.kind;
  c.context = p.context;
  c.source = p.source;
  c.destination = p.destination;
  c.local_qpn = p.qp.qpn;
  c.service_id = p.service_id;
  c.transaction = (random_.next() << 32) | c.id.value;
  c.max_cm_retries = p.max_cm_retries;
  c.response_time = 2 * from_code(p.packet_life_time) + from_code(p.response_timeout);
  c.timewait = from_code(p.local_ack_timeout);
  c.linger = c.response_time;
  c.grace_until = now + config_.listener_grace;
  Req m = make_req(p, c.id, config_.ca_guid);
  m.private_data = private_data;
  send(c, m);
  wait_for_answer(c, config_.max_patience, now);
  return c.id;
}

std::optional<RejectReason> Manager::objection(const From& from, const Req& m) const {
  if (!kind_of(m)) return RejectReason::kInvalidTransportType;
  if (!is_mtu(m.mtu)) return RejectReason::kInvalidMtu;
  // Else a stranger could have us connect to a third.
  if (m.path.local != from.peer) return RejectReason::kInvalidGid;
  if (m.local_id == 0) return RejectReason::kInvalidCommId;
  return {};
}

// In a listener's backlog, by giving up what a silent address asked for. In favour of another such
// address only if the first has much of the backlog: else they would take turns for nothing.
bool Manager::make_room_in_backlog(const From& from, const Listener& listener) {
  constexpr uint32_t kMuch = 16;
  if (!listener.backlog_full()) return true;
  const size_t least =
      half_open_.is_silent(from.peer) ? std::max(listener.params.backlog / 2, kMuch) : 1;
  Connection* const waiting = half_open_.oldest_waiting(listener, least);
  if (waiting != nullptr) evict(*waiting);
  return waiting != nullptr;
}

bool Manager::make_room_half_open(const From& from) {
  if (half_open_.size() < config_.max_half_open) return true;
  Connection* oldest = half_open_.oldest_replied(from.now);
  // Programs that take no requests may hold all of them.
  if (oldest == nullptr && !half_open_.is_silent(from.peer)) {
    oldest = half_open_.oldest_waiting_anywhere();
  }
  if (oldest != nullptr) evict(*oldest);
  return oldest != nullptr;
}

bool Manager::has_room(const From& from, const Listener& listener) {
  const bool too_many =
      from.peer != from.our && half_open_.size_of(from.peer) >= config_.max_half_open_each;
  const std::optional<Counter> lacking =
      too_many                                ? std::optional(Counter::kSourceFull)
      : !make_room_in_backlog(from, listener) ? std::optional(Counter::kBacklogFull)
      : !make_room_half_open(from)            ? std::optional(Counter::kHalfOpenFull)
      : table_.full()                         ? std::optional(Counter::kTableFull)
                                              : std::nullopt;
  if (lacking) counters_.add(*lacking);
  return !lacking;
}

void Manager::on(const From& from, const Req& m) {
  using Space = ConnectionTable::Space;
  if (Connection* const c = table_.find_remote(Space::kCommId, from.peer, m.local_id)) {
    on_req_again(from, *c);
    return;
  }
  if (const auto reason = objection(from, m)) {
    counters_.add(Counter::kBadRequest);
    refuse(from, m.local_id, *reason, About::kReq);
    return;
  }
  if (Connection* const old = table_.find_remote(Space::kQpn, from.peer, m.qpn.value)) {
    // The peer's queue pair is in use here: it has lost a connection that we think we have.
    counters_.add(Counter::kStaleConnection);
    refuse(from, m.local_id, RejectReason::kStaleConnection, About::kReq);
    if (old->state == State::kEstablished) {
      lose(*old, RejectReason::kStaleConnection, from.now);
    }
    return;
  }
  std::optional<AddressHeader> addresses;
  if (has_address_header(m.service_id)) {
    addresses = AddressHeader::read(m.private_data);
    if (!addresses) {
      counters_.add(Counter::kBadRequest);
      refuse(from, m.local_id, RejectReason::kUnsupported, About::kReq);
      return;
    }
  }
  Listener* const listener =
      listeners_.match(m.service_id, addresses ? addresses->destination : from.our);
  if (listener == nullptr) {
    counters_.add(Counter::kNoListener);
    refuse(from, m.local_id, RejectReason::kInvalidServiceId, About::kReq);
    return;
  }
  if (has_room(from, *listener)) ask_program(from, m, *listener, addresses);
}

void Manager::ask_program(const From& from, const Req& m, Listener& listener,
                          const std::optional<AddressHeader>& addresses) {
  Connection& c = table_.add();
  c.passive = true;
  c.kind = *kind_of(m);
  c.listener = listener.id;
  c.source = from.our;
  c.destination = from.peer;
  c.remote_id = m.local_id;
  c.remote_qpn = m.qpn;
  c.service_id = m.service_id;
  c.transaction = from.header.transaction;
  c.max_cm_retries = m.max_cm_retries;
  c.response_time = from_code(m.local_response_timeout);
  c.timewait = from_code(m.path.local_ack_timeout);
  // A little longer than the peer waits before it asks again: the answer to it must be the same.
  c.linger = (from_code(m.remote_response_timeout) + from_code(m.path.local_ack_timeout)) / 4 * 5;
  c.says_again = c.linger;
  table_.index_remote(c);
  set_state(c, State::kReqReceived);
  expect_again(c, 0, from.now);
  half_open_.asked(c);
  emit(c, request_event(m, listener, addresses));
}

void Manager::on_req_again(const From& from, Connection& c) {
  counters_.add(Counter::kDuplicateReq);
  if (!c.passive || c.source != from.our) return;
  switch (c.state) {
    case State::kReqReceived: send_mra(c, About::kReq, config_.mra_timeout, from.now); return;
    case State::kRepSent:
    case State::kRefused:     send_last(c); return;
    case State::kDreqSent:  // perhaps before the peer had its answer
    case State::kTimewait:
      refuse(from, c.remote_id, RejectReason::kStaleConnection, About::kReq);
      return;
    default: return;  // late: the peer has had its answer
  }
}

Result<void, Error> Manager::accept(CommId id, const AcceptParams& p, Time now) {
  Connection* const c = held(id);
  if (c == nullptr) return fail(Error::kGone);
  if (c->state != State::kReqReceived) return fail(Error::kWrongState);
  if (p.qp.qpn.value > kQpnMask || p.qp.rnr_retry_count > 7 || p.target_ack_delay > kMaxTimeCode) {
    return fail(Error::kInvalid);
  }
  Rep m{.local_id = c->id.value,
        .remote_id = c->remote_id,
        .qkey = p.qp.qkey,
        .psn = p.qp.psn,
        .responder_resources = p.qp.responder_resources,
        .target_ack_delay = p.target_ack_delay,
        .rnr_retry_count = p.qp.rnr_retry_count,
        .ca_guid = config_.ca_guid};
  if (!fill(m.private_data, p.private_data)) return fail(Error::kTooLong);
  if (c->kind ==
      QpKind::kXrc) {  // as Linux: the target's number stands where RD has its EE context
    m.eecn = p.qp.qpn.value;
    m.srq = true;
  } else {
    m.qpn = p.qp.qpn;
    m.initiator_depth = p.qp.initiator_depth;
    m.flow_control = p.qp.flow_control;
    m.srq = p.qp.srq;
  }
  c->local_qpn = p.qp.qpn;
  set_state(*c, State::kRepSent);
  half_open_.replied(*c, now);
  send(*c, m);
  wait_for_answer(*c, config_.max_patience, now);
  return {};
}

Result<void, Error> Manager::data_arrived(CommId id, Time /*now*/) {
  Connection* const c = held(id);
  if (c == nullptr) return fail(Error::kGone);
  if (c->state == State::kEstablished) return {};
  if (c->state != State::kRepSent) return fail(Error::kWrongState);
  half_open_.answered(c->destination);
  timers_.set(*c, kNever);
  set_state(*c, State::kEstablished);
  emit(*c, {.kind = EventKind::kEstablished});
  return {};
}

Result<void, Error> Manager::establish(CommId id, std::span<const uint8_t> private_data,
                                       Time /*now*/) {
  Connection* const c = held(id);
  if (c == nullptr) return fail(Error::kGone);
  if (c->state != State::kRepReceived) return fail(Error::kWrongState);
  Rtu m;
  m.local_id = c->id.value;
  m.remote_id = c->remote_id;
  if (!fill(m.private_data, private_data)) return fail(Error::kTooLong);
  timers_.set(*c, kNever);
  set_state(*c, State::kEstablished);
  send(*c, m);
  return {};
}

}  // namespace verbena::cm
