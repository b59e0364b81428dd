// SPDX-License-Identifier: Apache-2.0
// How a connection ends, or does not come about, by the program's own doing: reject(),
// disconnect(), connection_lost(), release(), leave().
#include <algorithm>

#include "base/endian.h"
#include "cm/fill.h"
#include "cm/manager.h"
#include "cm/manager_send.h"
#include "cm/times.h"

namespace verbena::cm {
namespace {

constexpr uint8_t kMaxRetries = 15;

About about(State state) {
  if (state == State::kReqReceived) return About::kReq;
  if (state == State::kRepReceived) return About::kRep;
  return About::kOther;
}

}  // namespace

void Manager::send_rej(Connection& c, const RejectParams& p) {
  Rej m{.local_id = c.id.value,
        .remote_id = c.remote_id,
        .about = about(c.state),
        .info_bytes = static_cast<uint8_t>(p.info.size()),
        .reason = p.reason};
  std::ranges::copy(p.info, m.info.begin());
  std::ranges::copy(p.private_data, m.private_data.begin());
  send(c, m);
}

// A peer that never told us its id is told by ours, and by who we are.
void Manager::send_timeout_rej(Connection& c) {
  std::array<uint8_t, 8> guid{};
  store_be64(guid.data(), config_.ca_guid);
  send_rej(c, {.reason = RejectReason::kTimeout, .info = guid, .private_data = {}});
}

void Manager::send_mra(Connection& c, About message, uint8_t service_timeout, Time now) {
  counters_.add(Counter::kMraSent);
  const Mra m{.local_id = c.id.value,
              .remote_id = c.remote_id,
              .about = message,
              .service_timeout = service_timeout};
  MadBuffer mad;
  encode({.transaction = c.transaction}, m, mad);
  put(c.source, c.destination, mad);
  expect_again(c, from_code(service_timeout), now);
}

void Manager::send_dreq(Connection& c, std::span<const uint8_t> private_data, Time now) {
  Dreq m{.local_id = c.id.value, .remote_id = c.remote_id, .remote_qpn = c.remote_qpn};
  std::ranges::copy(private_data, m.private_data.begin());
  c.transaction = (random_.next() << 32) | c.id.value;
  c.max_cm_retries = kMaxRetries;
  c.response_time = config_.max_disconnect_resend;
  set_state(c, State::kDreqSent);
  send(c, m);
  wait_for_answer(c, config_.max_disconnect_patience, now);
}

void Manager::lose(Connection& c, RejectReason reason, Time now) {
  if (c.told_end) return;
  if (c.state == State::kEstablished) send_dreq(c, {}, now);
  c.told_end = true;
  emit(c, {.kind = EventKind::kDisconnected, .reason = reason});
}

Result<void, Error> Manager::reject(CommId id, const RejectParams& p, Time now) {
  Connection* const c = held(id);
  if (c == nullptr) return fail(Error::kGone);
  if (c->state != State::kReqReceived && c->state != State::kRepSent &&
      c->state != State::kRepReceived) {
    return fail(Error::kWrongState);
  }
  if (p.info.size() > kAriBytes || p.private_data.size() > kRejPrivateBytes) {
    return fail(Error::kTooLong);
  }
  send_rej(*c, p);
  linger(*c, State::kRefused, now);
  return {};
}

Result<void, Error> Manager::ask_for_time(CommId id, uint8_t service_timeout, Time now) {
  Connection* const c = held(id);
  if (c == nullptr) return fail(Error::kGone);
  if (service_timeout > 31) return fail(Error::kInvalid);
  if (c->state != State::kReqReceived && c->state != State::kRepReceived) {
    return fail(Error::kWrongState);
  }
  send_mra(*c, about(c->state), service_timeout, now);
  return {};
}

Result<void, Error> Manager::disconnect(CommId id, std::span<const uint8_t> private_data,
                                        Time now) {
  Connection* const c = held(id);
  if (c == nullptr) return fail(Error::kGone);
  if (c->state == State::kDreqSent || c->state == State::kTimewait) return {};
  if (c->state != State::kEstablished && c->state != State::kRepSent) {
    return fail(Error::kWrongState);
  }
  if (private_data.size() > kDreqPrivateBytes) return fail(Error::kTooLong);
  send_dreq(*c, private_data, now);
  return {};
}

Result<void, Error> Manager::connection_lost(CommId id, Time now) {
  Connection* const c = held(id);
  if (c == nullptr) return fail(Error::kGone);
  switch (c->state) {
    case State::kTimewait:    return {};
    case State::kEstablished:
    case State::kDreqSent:    lose(*c, {}, now); return {};
    case State::kReqReceived:
    case State::kRepSent:
    case State::kRepReceived:
      finish(*c, {.kind = EventKind::kRejected, .reason = RejectReason::kTimeout});
      return {};
    default: return fail(Error::kWrongState);
  }
}

void Manager::release(CommId id, Time now) {
  Connection* const c = held(id);
  if (c == nullptr) return;
  c->released = true;
  switch (c->state) {
    case State::kReqSent:
      send_timeout_rej(*c);
      erase(*c);
      return;
    case State::kReqReceived:
    case State::kRepSent:
    case State::kRepReceived:
      send_rej(*c, {});
      linger(*c, State::kRefused, now);
      return;
    case State::kEstablished:     send_dreq(*c, {}, now); return;
    case State::kSidrReqSent:     erase(*c); return;
    case State::kSidrReqReceived: send_sidr_rep(*c, {.status = SidrStatus::kRejected}, now); return;
    case State::kDreqSent:
    case State::kTimewait:
    case State::kRefused:
    case State::kSidrReplied:     return;  // goes by itself
  }
}

void Manager::leave(Time now) {
  while (Connection* const c = table_.any()) {
    const CommId id = c->id;
    release(id, now);
    if (Connection* const rest = table_.find(id.value)) erase(*rest);
  }
}

}  // namespace verbena::cm
