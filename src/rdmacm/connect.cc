// SPDX-License-Identifier: Apache-2.0
// Connecting, accepting and refusing, by the exchange of docs/connections.md.
#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>
#include <vector>

#include "base/c_interface.h"
#include "rdmacm/connection.h"
#include "rdmacm/device.h"
#include "rdmacm/failure.h"
#include "rdmacm/qp.h"

namespace verbena::rdmacm {

int errno_of(cm::Error error) {
  switch (error) {
    case cm::Error::kGone:       return ENOTCONN;
    case cm::Error::kWrongState:
    case cm::Error::kInvalid:
    case cm::Error::kTooLong:    return EINVAL;
    case cm::Error::kTooMany:    return ENOMEM;
    case cm::Error::kInUse:      return EADDRINUSE;
    case cm::Error::kNoPorts:    return ENOSPC;
    case cm::Error::kTimedOut:   return ETIMEDOUT;
  }
  return EINVAL;
}

namespace {

template <typename T>
[[nodiscard]] int outcome_of(const Result<T, cm::Error>& done) {
  return done ? 0 : errno_of(done.error());
}

// What a program says of a connection, or what goes without saying.
[[nodiscard]] rdma_conn_param params_of(const CmId& id, const rdma_conn_param* given) {
  rdma_conn_param params{};
  params.responder_resources = RDMA_MAX_RESP_RES;
  params.initiator_depth = RDMA_MAX_INIT_DEPTH;
  params.retry_count = params.rnr_retry_count = 7;
  if (given != nullptr) params = *given;
  params.retry_count = std::min<uint8_t>(params.retry_count, 7);
  params.rnr_retry_count = std::min<uint8_t>(params.rnr_retry_count, 7);
  if (id.qp != nullptr) {
    params.qp_num = id.qp->qp_num;
    params.srq = id.qp->srq != nullptr ? 1 : 0;
  }
  return params;
}

// More than the device has is an error, unless it is said to be as much as there is.
[[nodiscard]] int check(const CmId& id, const rdma_conn_param* given) {
  if (id.is_datagram()) return 0;
  if (given == nullptr) return id.qp != nullptr ? 0 : EINVAL;
  if (given->responder_resources != RDMA_MAX_RESP_RES &&
      given->responder_resources > id.device->max_responder_resources()) {
    return EINVAL;
  }
  if (given->initiator_depth != RDMA_MAX_INIT_DEPTH &&
      given->initiator_depth > id.device->max_initiator_depth()) {
    return EINVAL;
  }
  return 0;
}

[[nodiscard]] std::vector<uint8_t> private_data_of(const CmId& id, const rdma_conn_param& params) {
  std::vector<uint8_t> bytes = id.connect_data;
  if (params.private_data == nullptr) return bytes;
  const auto* const data = static_cast<const uint8_t*>(params.private_data);
  bytes.insert(bytes.end(), data, data + params.private_data_len);
  return bytes;
}

[[nodiscard]] cm::QpFacts facts_of(const CmId& id, const rdma_conn_param& params) {
  return {.qpn = Qpn(params.qp_num & kQpnMask),
          .psn = id.psn,
          .qkey = 0,
          .responder_resources = id.responder_resources,
          .initiator_depth = id.initiator_depth,
          .rnr_retry_count = params.rnr_retry_count,
          .flow_control = params.flow_control != 0,
          .srq = params.srq != 0};
}

[[nodiscard]] cm::QpKind kind_of(ibv_qp_type type) {
  switch (type) {
    case IBV_QPT_UC:       return cm::QpKind::kUc;
    case IBV_QPT_XRC_SEND:
    case IBV_QPT_XRC_RECV: return cm::QpKind::kXrc;
    default:               return cm::QpKind::kRc;
  }
}

[[nodiscard]] cm::AddressHeader header_of(const CmId& id) {
  const auto from = id.source_address();
  const auto to = id.destination_address();
  return {.source_port = from->port(), .source = from->gid(), .destination = to->gid()};
}

[[nodiscard]] uint64_t as_context(CmId& id) { return reinterpret_cast<uintptr_t>(&id); }

[[nodiscard]] int ask_datagram(CmId& id, const rdma_conn_param& params) {
  const std::vector<uint8_t> data = private_data_of(id, params);
  cm::SidrRequestParams request;
  request.source = id.source();
  request.destination = id.destination();
  request.service_id = service_id_of(id, id.destination_address()->port());
  request.addresses = header_of(id);
  request.private_data = data;
  request.context = as_context(id);
  const auto asked = id.device->service().sidr_request(request);
  if (asked) id.comm = *asked;
  return outcome_of(asked);
}

[[nodiscard]] int ask_connection(CmId& id, const rdma_conn_param& params) {
  id.responder_resources =
      std::min(params.responder_resources, id.device->max_responder_resources());
  id.initiator_depth = std::min(params.initiator_depth, id.device->max_initiator_depth());
  id.retry_count = params.retry_count;
  id.psn = id.device->service().draw_psn();
  id.qpn = params.qp_num;
  describe_path(id);
  const std::vector<uint8_t> data = private_data_of(id, params);
  cm::ConnectParams request;
  request.source = id.source();
  request.destination = id.destination();
  request.service_id = service_id_of(id, id.destination_address()->port());
  request.addresses = header_of(id);
  request.private_data = data;
  request.kind = kind_of(id.qp_type);
  request.qp = facts_of(id, params);
  request.retry_count = params.retry_count;
  request.mtu = id.mtu;
  request.traffic_class = id.path.traffic_class;
  request.hop_limit = id.path.hop_limit;
  request.packet_life_time = id.path.packet_life_time;
  request.local_ack_timeout = id.ack_timeout.value_or(id.path.packet_life_time + 1);
  request.context = as_context(id);
  const auto asked = id.device->service().connect(request);
  if (asked) id.comm = *asked;
  return outcome_of(asked);
}

[[nodiscard]] int connect(CmId& id, const rdma_conn_param* given) {
  if (!id.advance(State::kRouteResolved, State::kConnecting)) return EINVAL;
  int error = check(id, given);
  const rdma_conn_param params = params_of(id, given);
  if (error == 0) error = id.is_datagram() ? ask_datagram(id, params) : ask_connection(id, params);
  if (error != 0) {
    id.state = State::kRouteResolved;
    return error;
  }
  id.connect_data.clear();
  return complete(id, {RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_CONNECT_RESPONSE});
}

// From the time that data can flow, the service looks whether the peer is still there. An XRC
// target has nothing to ask it with.
void watch(CmId& id) {
  if (id.qpn == 0 || id.qp_type == IBV_QPT_XRC_RECV) return;
  id.device->service().watch(id.comm, Qpn(id.qpn & kQpnMask));
}

}  // namespace

int take_answer(CmId& id, cm::CommId comm, const Peer& peer) {
  id.comm = comm;
  id.peer.qp = peer.qp;
  id.responder_resources = std::min(id.responder_resources, peer.qp.responder_resources);
  id.initiator_depth = std::min(id.initiator_depth, peer.qp.initiator_depth);
  if (id.qp == nullptr) {
    (void)id.advance(State::kConnecting, State::kAnswered);
    return 0;
  }
  cm::Service& service = id.device->service();
  int error = make_ready_to_send(id);
  if (error == 0) {
    (void)id.advance(State::kConnecting, State::kConnected);
    watch(id);
    error = outcome_of(service.establish(comm, {}));
  } else {
    (void)service.reject(comm, {});
  }
  if (error != 0) {
    id.state = State::kEnded;
    (void)flush_qp(id);
  }
  return error;
}

int take_request(CmId& id) {
  if (const int error = attach_device(id); error != 0) return error;
  const auto index = id.device->gid_index(id.source());
  if (!index) return EADDRNOTAVAIL;
  id.gid_index = *index;
  id.mtu = std::clamp<uint8_t>(id.peer.mtu, IBV_MTU_256, IBV_MTU_4096);
  id.service_type = id.peer.traffic_class;
  id.responder_resources =
      std::min(id.peer.qp.responder_resources, id.device->max_responder_resources());
  id.initiator_depth = std::min(id.peer.qp.initiator_depth, id.device->max_initiator_depth());
  id.retry_count = id.peer.retry_count;
  id.psn = id.device->service().draw_psn();
  describe_path(id);
  if (id.peer.local_ack_timeout > 0) {
    id.path.packet_life_time = static_cast<uint8_t>(id.peer.local_ack_timeout - 1);
  }
  id.route.path_rec = &id.path;
  id.route.num_paths = 1;
  return 0;
}

namespace {

[[nodiscard]] int reply_datagram(CmId& id, cm::SidrStatus status, const rdma_conn_param& params,
                                 std::span<const uint8_t> data) {
  cm::SidrReplyParams reply;
  reply.status = status;
  reply.qpn = Qpn(params.qp_num & kQpnMask);
  reply.qkey = RDMA_UDP_QKEY;
  reply.private_data = data;
  return outcome_of(id.device->service().sidr_reply(id.comm, reply));
}

[[nodiscard]] int accept_connection(CmId& id, const rdma_conn_param& params,
                                    std::span<const uint8_t> data) {
  if (params.responder_resources != RDMA_MAX_RESP_RES) {
    id.responder_resources = params.responder_resources;
  }
  if (params.initiator_depth != RDMA_MAX_INIT_DEPTH) id.initiator_depth = params.initiator_depth;
  int error = make_ready_to_send(id);
  if (error != 0) return error;
  cm::AcceptParams answer;
  answer.qp = facts_of(id, params);
  answer.private_data = data;
  error = outcome_of(id.device->service().accept(id.comm, answer));
  if (error != 0) {
    (void)flush_qp(id);
    return error;
  }
  id.qpn = params.qp_num;
  watch(id);
  return 0;
}

[[nodiscard]] int accept(CmId& id, const rdma_conn_param* given) {
  if (id.state == State::kAsked && check(id, given) != 0) return EINVAL;
  if (!id.advance(State::kAsked, State::kAccepting)) return EINVAL;
  const rdma_conn_param params = params_of(id, given);
  const std::vector<uint8_t> data = private_data_of(id, params);
  const int error = id.is_datagram() ? reply_datagram(id, cm::SidrStatus::kSuccess, params, data)
                                     : accept_connection(id, params, data);
  if (error != 0) {
    (void)id.advance(State::kAccepting, error == ENOTCONN ? State::kEnded : State::kAsked);
    return error;
  }
  if (!id.is_datagram()) return complete(id, {RDMA_CM_EVENT_ESTABLISHED});
  (void)id.advance(State::kAccepting, State::kConnected);
  if (id.is_alone()) drop_event(id);
  return 0;
}

[[nodiscard]] int reject(CmId& id, std::span<const uint8_t> data) {
  const State before = id.state;
  if (before != State::kAsked && before != State::kAnswered) return EINVAL;
  int error = 0;
  if (id.is_datagram()) {
    error = reply_datagram(id, cm::SidrStatus::kRejected, {}, data);
  } else {
    cm::RejectParams params;
    params.private_data = data;
    error = outcome_of(id.device->service().reject(id.comm, params));
  }
  if (error == 0) (void)id.advance(before, State::kEnded);
  return error;
}

[[nodiscard]] int establish(CmId& id) {
  if (id.qp != nullptr || !id.advance(State::kAnswered, State::kConnected)) return EINVAL;
  watch(id);
  return outcome_of(id.device->service().establish(id.comm, {}));
}

// As Linux: where there is nothing to tell the peer yet, or any more, the queue pair is flushed and
// that is all. A peer's answer that comes after it makes no connection.
[[nodiscard]] int disconnect(CmId& id) {
  if (id.device == nullptr || id.comm == cm::CommId{} || id.is_datagram()) return EINVAL;
  if (const int error = flush_qp(id); error != 0) return error;
  const auto done = id.device->service().disconnect(id.comm, {});
  if (!done) {
    const bool nothing = done.error() == cm::Error::kGone || done.error() == cm::Error::kWrongState;
    return nothing ? 0 : outcome_of(done);
  }
  int error = 0;
  while (id.is_alone() && !id.disconnect_told && error == 0) {
    error = complete(id, {RDMA_CM_EVENT_ESTABLISHED, RDMA_CM_EVENT_DISCONNECTED});
  }
  return error;
}

[[nodiscard]] int notify(CmId& id, ibv_event_type event) {
  if (id.comm == cm::CommId{} || event != IBV_EVENT_COMM_EST) return EINVAL;
  if (id.state == State::kConnected) return EISCONN;
  return outcome_of(id.device->service().data_arrived(id.comm));
}

}  // namespace
}  // namespace verbena::rdmacm

using namespace verbena::rdmacm;

VERBENA_EXPORT int rdma_connect(rdma_cm_id* id, rdma_conn_param* params) {
  return guarded([=] { return is_ours(id) ? connect(of(id), params) : EINVAL; });
}

VERBENA_EXPORT int rdma_accept(rdma_cm_id* id, rdma_conn_param* params) {
  return guarded([=] { return is_ours(id) ? accept(of(id), params) : EINVAL; });
}

VERBENA_EXPORT int rdma_reject(rdma_cm_id* id, const void* data, uint8_t length) {
  return guarded([=] {
    if (!is_ours(id)) return EINVAL;
    const auto* const bytes = static_cast<const uint8_t*>(data);
    return reject(of(id), {bytes, bytes != nullptr ? length : size_t{0}});
  });
}

VERBENA_EXPORT int rdma_establish(rdma_cm_id* id) {
  return guarded([=] { return is_ours(id) ? establish(of(id)) : EINVAL; });
}

VERBENA_EXPORT int rdma_disconnect(rdma_cm_id* id) {
  return guarded([=] { return is_ours(id) ? disconnect(of(id)) : EINVAL; });
}

VERBENA_EXPORT int rdma_notify(rdma_cm_id* id, ibv_event_type event) {
  return guarded([=] { return is_ours(id) ? notify(of(id), event) : EINVAL; });
}
