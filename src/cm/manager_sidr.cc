// SPDX-License-Identifier: Apache-2.0
// Service id resolution: one question, one answer, and a datagram queue pair is known.
#include <algorithm>

#include "cm/fill.h"
#include "cm/manager.h"
#include "cm/manager_send.h"
#include "cm/times.h"

namespace verbena::cm {
namespace {

// SIDR_REQ does not say when its sender will ask again; Linux's rdma_cm does after 4 s.
constexpr Duration kSidrLinger = 5 * kSecond;

}  // namespace

Result<CommId, Error> Manager::sidr_request(const SidrRequestParams& p, Time now) {
  if (p.source.is_zero() || p.destination.is_zero() || p.response_timeout > kMaxTimeCode ||
      p.max_cm_retries > 15) {
    return fail(Error::kInvalid);
  }
  SidrReq m{.pkey = p.pkey, .service_id = p.service_id};
  if (!fill(m.private_data, p.addresses, p.private_data)) return fail(Error::kTooLong);
  if (table_.full()) return fail(Error::kTooMany);
  Connection& c = table_.add();
  c.state = State::kSidrReqSent;
  c.context = p.context;
  c.source = p.source;
  c.destination = p.destination;
  c.service_id = p.service_id;
  c.transaction = (random_.next() << 32) | c.id.value;
  c.max_cm_retries = p.max_cm_retries;
  c.response_time = from_code(p.response_timeout);
  c.grace_until = now + config_.listener_grace;
  m.request_id = c.id.value;
  send(c, m);
  wait_for_answer(c, config_.max_patience, now);
  return c.id;
}

void Manager::send_sidr_rep(Connection& c, const SidrReplyParams& p, Time now) {
  SidrRep m{.request_id = c.remote_id,
            .status = p.status,
            .info_bytes = static_cast<uint8_t>(p.info.size()),
            .qpn = p.qpn,
            .service_id = c.service_id,
            .qkey = p.qkey};
  std::ranges::copy(p.info, m.info.begin());
  std::ranges::copy(p.private_data, m.private_data.begin());
  send(c, m);
  linger(c, State::kSidrReplied, now);
}

Result<void, Error> Manager::sidr_reply(CommId id, const SidrReplyParams& p, Time now) {
  Connection* const c = held(id);
  if (c == nullptr) return fail(Error::kGone);
  if (c->state != State::kSidrReqReceived) return fail(Error::kWrongState);
  if (p.qpn.value > kQpnMask) return fail(Error::kInvalid);
  if (p.info.size() > kAriBytes || p.private_data.size() > kSidrRepPrivateBytes) {
    return fail(Error::kTooLong);
  }
  send_sidr_rep(*c, p, now);
  return {};
}

void Manager::on(const From& from, const SidrReq& m) {
  using Space = ConnectionTable::Space;
  if (Connection* const c = table_.find_remote(Space::kSidrRequest, from.peer, m.request_id)) {
    counters_.add(Counter::kDuplicateSidr);
    if (c->state == State::kSidrReplied && c->source == from.our) send_last(*c);
    return;
  }
  const auto refuse_with = [&](SidrStatus status) {
    const SidrRep rep{.request_id = m.request_id, .status = status, .service_id = m.service_id};
    MadBuffer mad;
    encode({.transaction = from.header.transaction}, rep, mad);
    put(from.our, from.peer, mad);
  };
  std::optional<AddressHeader> addresses;
  if (has_address_header(m.service_id)) addresses = AddressHeader::read(m.private_data);
  if (m.request_id == 0 || (has_address_header(m.service_id) && !addresses)) {
    counters_.add(Counter::kBadRequest);
    refuse_with(SidrStatus::kRejected);
    return;
  }
  const Listener* const listener =
      listeners_.match(m.service_id, addresses ? addresses->destination : from.our);
  if (listener == nullptr) {
    counters_.add(Counter::kNoListener);
    refuse_with(SidrStatus::kUnsupported);
    return;
  }
  if (!has_room(from, *listener)) return;
  Connection& c = table_.add();
  c.passive = true;
  c.listener = listener->id;
  c.source = from.our;
  c.destination = from.peer;
  c.remote_id = m.request_id;
  c.service_id = m.service_id;
  c.transaction = from.header.transaction;
  c.linger = kSidrLinger;
  set_state(c, State::kSidrReqReceived);
  table_.index_remote(c);
  emit(c, {.kind = EventKind::kSidrRequest,
           .private_data = user_data(m.private_data, addresses),
           .listener = listener->id,
           .listener_context = listener->params.context,
           .service_id = m.service_id,
           .addresses = addresses,
           .pkey = m.pkey});
}

void Manager::on(const From& from, const SidrRep& m) {
  Connection* const c = table_.find(m.request_id);
  if (c == nullptr || c->state != State::kSidrReqSent) {
    counters_.add(Counter::kUnknownId);
    return;
  }
  if (c->destination != from.peer || c->source != from.our) {
    counters_.add(Counter::kWrongPeer);
    return;
  }
  if (m.status == SidrStatus::kUnsupported && ask_again(*c, from.now)) return;
  const size_t info_bytes = std::min<size_t>(m.info_bytes, m.info.size());
  finish(*c, {.kind = EventKind::kSidrResponse,
              .private_data = m.private_data,
              .service_id = m.service_id,
              .qp = {.qpn = m.qpn, .qkey = m.qkey},
              .info = std::span(m.info).first(info_bytes),
              .status = m.status});
}

}  // namespace verbena::cm
