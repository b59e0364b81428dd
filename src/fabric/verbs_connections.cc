// SPDX-License-Identifier: Apache-2.0
// Connections of the verbs fabric: made, failed, ended.
//
//   connect()  address, route -> queue pair, REQ -> REP: queue pair ready, RTU -> on_connected
//   a peer's   REQ -> queue pair ready, REP -> RTU, or its first message -> on_connected
#include <algorithm>
#include <cerrno>

#include <fmt/format.h>

#include "base/check.h"
#include "fabric/resolve.h"
#include "fabric/verbs_fabric_impl.h"

namespace verbena::fabric {
namespace {

constexpr int kResolveMs = 2000;
constexpr int kListenBacklog = 128;
constexpr uint8_t kRetries = 7;
// How often a message is sent again to a peer that has no buffer for it. A client waits for the
// server as long as it takes. A server does not wait for ever: buffers that a client does not take
// messages from are missing to others. A client that keeps to its window always has enough.
constexpr uint8_t kRetryForEver = 7;
constexpr uint8_t kRetryAccepted = 6;
// And how long in between, in the standard's code, which the receiver chooses: 1.28 ms for a
// server, 164 ms for a client.
constexpr uint8_t kNotReadyServer = 14;
constexpr uint8_t kNotReadyClient = 28;

std::span<const uint8_t> private_data_of(const rdma_cm_event& event) {
  if (event.param.conn.private_data == nullptr) return {};
  return {static_cast<const uint8_t*>(event.param.conn.private_data),
          event.param.conn.private_data_len};
}

}  // namespace

Result<Endpoint> VerbsFabric::listen(const Endpoint& at) {
  VERBENA_CHECK(listener_ == nullptr);
  auto address = resolve(at, true);
  if (!address) return fail(address.error());
  if (library_.create_id(events_, &listener_, nullptr, RDMA_PS_TCP) != 0) {
    return fail(describe_error("cannot make a listener", errno));
  }
  if (library_.bind_addr(listener_, reinterpret_cast<sockaddr*>(&*address)) != 0 ||
      library_.listen(listener_, kListenBacklog) != 0) {
    auto error = describe_error(fmt::format("cannot listen on RDMA port {}", at.port), errno);
    library_.destroy_id(std::exchange(listener_, nullptr));
    return fail(std::move(error));
  }
  port_ = ntohs(library_.get_src_port(listener_));
  return Endpoint{at.host, port_};
}

Connection& VerbsFabric::add_connection(rdma_cm_id* cm) {
  auto connection = std::make_unique<Connection>();
  connection->id = next_connection_++;
  connection->cm = cm;
  Connection& added = *connection;
  connections_.emplace(added.id, std::move(connection));
  return added;
}

Connection* VerbsFabric::find(ConnectionId id) {
  const auto found = connections_.find(id);
  return found == connections_.end() ? nullptr : found->second.get();
}

ConnectionId VerbsFabric::connect(const Endpoint& to, std::span<const uint8_t> data) {
  Connection& connection = add_connection(nullptr);
  connection.private_data.assign(data.begin(), data.end());
  connection.reported = true;
  auto address = resolve(to, false);
  if (!address) {
    fail_connection(connection, address.error());
  } else if (library_.create_id(events_, &connection.cm, reinterpret_cast<void*>(connection.id),
                                RDMA_PS_TCP) != 0 ||
             library_.resolve_addr(connection.cm, nullptr, reinterpret_cast<sockaddr*>(&*address),
                                   kResolveMs) != 0) {
    fail_connection(connection, describe_error("cannot resolve the address", errno));
  }
  return connection.id;
}

bool VerbsFabric::make_queue_pair(Connection& connection) {
  // The address may belong to another device than the chosen one.
  if (connection.cm->verbs != context_) return false;
  ibv_qp_init_attr init{};
  init.send_cq = init.recv_cq = completions_;
  init.srq = receives_;
  init.cap.max_send_wr = options_.work_requests;
  init.cap.max_send_sge = static_cast<uint32_t>(max_parts_);
  init.qp_type = IBV_QPT_RC;
  init.sq_sig_all = 1;
  connection.qp = part_keys_ != nullptr ? part_keys_->create_queue_pair(init)
                                        : library_.create_qp(domain_, &init);
  if (connection.qp == nullptr) return false;
  by_number_[connection.qp->qp_num] = &connection;
  return true;
}

bool VerbsFabric::move_queue_pair(Connection& connection, ibv_qp_state state) {
  ibv_qp_attr attr{};
  attr.qp_state = state;
  int mask = 0;
  if (library_.init_qp_attr(connection.cm, &attr, &mask) != 0) return false;
  attr.max_dest_rd_atomic = std::min(attr.max_dest_rd_atomic, max_reads_);
  attr.max_rd_atomic = std::min(attr.max_rd_atomic, max_reads_);
  attr.min_rnr_timer = connection.accepted ? kNotReadyServer : kNotReadyClient;
  attr.rnr_retry = connection.accepted ? kRetryAccepted : kRetryForEver;
  return library_.modify_qp(connection.qp, &attr, mask) == 0;
}

bool VerbsFabric::make_ready(Connection& connection) {
  // INIT again: what the peer may do is not known before its answer.
  return move_queue_pair(connection, IBV_QPS_INIT) && move_queue_pair(connection, IBV_QPS_RTR) &&
         move_queue_pair(connection, IBV_QPS_RTS);
}

rdma_conn_param VerbsFabric::parameters(const Connection& connection) const {
  rdma_conn_param parameters{};
  parameters.initiator_depth = max_reads_;
  parameters.responder_resources = max_reads_;
  parameters.retry_count = kRetries;
  parameters.rnr_retry_count = kRetryForEver;  // a wish, which a server does not grant
  parameters.srq = 1;
  parameters.qp_num = connection.qp->qp_num;
  parameters.private_data = connection.private_data.data();
  parameters.private_data_len = static_cast<uint8_t>(connection.private_data.size());
  return parameters;
}

void VerbsFabric::on_connect_request(const rdma_cm_event& event, Handler& handler) {
  Connection& connection = add_connection(event.id);
  connection.state = Connection::State::kConnecting;
  connection.accepted = true;
  event.id->context = reinterpret_cast<void*>(connection.id);
  auto answer = connections_.size() <= options_.max_connections
                    ? handler.on_request(connection.id, private_data_of(event))
                    : std::nullopt;
  if (answer && make_queue_pair(connection) && make_ready(connection)) {
    connection.private_data = std::move(*answer);
    rdma_conn_param accepted = parameters(connection);
    accepted.initiator_depth = std::min(max_reads_, event.param.conn.initiator_depth);
    accepted.responder_resources = std::min(max_reads_, event.param.conn.responder_resources);
    if (library_.accept(event.id, &accepted) == 0) return;
  }
  static_cast<void>(library_.reject(event.id, nullptr, 0));
  release(connection);
  connections_.erase(connection.id);
}

void VerbsFabric::on_route(Connection& connection) {
  connection.state = Connection::State::kConnecting;
  if (!make_queue_pair(connection) || !move_queue_pair(connection, IBV_QPS_INIT)) {
    return fail_connection(connection, "cannot make a queue pair");
  }
  rdma_conn_param wished = parameters(connection);
  if (library_.connect(connection.cm, &wished) != 0) {
    fail_connection(connection, describe_error("cannot connect", errno));
  }
}

void VerbsFabric::on_response(Connection& connection, const rdma_cm_event& event,
                              Handler& handler) {
  if (connection.state != Connection::State::kConnecting) return;
  handler.on_accepted(connection.id, private_data_of(event));
  if (!make_ready(connection) || library_.establish(connection.cm) != 0) {
    return fail_connection(connection, "the connection cannot be established");
  }
  on_established(connection, handler);
}

void VerbsFabric::on_established(Connection& connection, Handler& handler) {
  if (connection.state != Connection::State::kConnecting) return;
  connection.state = Connection::State::kConnected;
  connection.reported = true;
  handler.on_connected(connection.id);
}

void VerbsFabric::on_event(const rdma_cm_event& event, Handler& handler) {
  if (event.event == RDMA_CM_EVENT_CONNECT_REQUEST) return on_connect_request(event, handler);
  Connection* const connection = find(reinterpret_cast<ConnectionId>(event.id->context));
  if (connection == nullptr) return;
  const auto failed = [&](const char* why) { fail_connection(*connection, why); };
  switch (event.event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      if (connection->state == Connection::State::kResolving &&
          library_.resolve_route(event.id, kResolveMs) != 0) {
        failed("there is no route to the host");
      }
      break;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      if (connection->state == Connection::State::kResolving) on_route(*connection);
      break;
    case RDMA_CM_EVENT_CONNECT_RESPONSE: on_response(*connection, event, handler); break;
    case RDMA_CM_EVENT_ESTABLISHED:      on_established(*connection, handler); break;
    case RDMA_CM_EVENT_REJECTED:         failed("the peer rejects the connection"); break;
    case RDMA_CM_EVENT_UNREACHABLE:      failed("the peer does not answer"); break;
    case RDMA_CM_EVENT_ADDR_ERROR:       failed("the address cannot be resolved"); break;
    case RDMA_CM_EVENT_ROUTE_ERROR:      failed("there is no route to the host"); break;
    case RDMA_CM_EVENT_DISCONNECTED:     failed("the peer has disconnected"); break;
    case RDMA_CM_EVENT_DEVICE_REMOVAL:   failed("the RDMA device was removed"); break;
    case RDMA_CM_EVENT_CONNECT_ERROR:    failed("the connection failed"); break;
    default:                             break;
  }
}

void VerbsFabric::fail_connection(Connection& connection, std::string why) {
  if (connection.state >= Connection::State::kFailed) return;
  connection.state = Connection::State::kFailed;
  notices_.add({Notice::What::kFailed, connection.id, 0, std::move(why)});
}

// Of one that the handler does not know of, nothing is told.
void VerbsFabric::tell_failure(ConnectionId id, std::string_view why, Handler& handler) {
  const Connection* const connection = find(id);
  if (connection == nullptr || connection->state != Connection::State::kFailed) return;
  if (connection->reported) return handler.on_failed(id, why);
  end(id);
}

void VerbsFabric::end(ConnectionId id) {
  Connection* const connection = find(id);
  if (connection == nullptr || connection->state == Connection::State::kEnding) return;
  post_messages(*connection);
  connection->state = Connection::State::kEnding;
  if (room_ && room_->first == id) {
    sent_.give(room_->second);
    room_.reset();
  }
  if (connection->qp != nullptr) {
    // Into the error state first: the peer may not answer.
    ibv_qp_attr attr{};
    attr.qp_state = IBV_QPS_ERR;
    static_cast<void>(library_.modify_qp(connection->qp, &attr, IBV_QP_STATE));
    static_cast<void>(library_.disconnect(connection->cm));
    ibv_send_wr last{};
    last.wr_id = work_id(Work::kLast, 0);
    last.opcode = IBV_WR_SEND;
    static_cast<void>(post(*connection, last));
  }
  end_if_drained(*connection);
}

void VerbsFabric::end_if_drained(Connection& connection) {
  if (connection.state != Connection::State::kEnding || connection.outstanding > 0) return;
  notices_.add({Notice::What::kEnded, connection.id, 0, {}});
}

void VerbsFabric::release(Connection& connection) {
  if (connection.qp != nullptr) {
    by_number_.erase(connection.qp->qp_num);
    library_.destroy_qp(connection.qp);
  }
  if (connection.cm != nullptr) library_.destroy_id(connection.cm);
}

void VerbsFabric::destroy(ConnectionId id, Handler& handler) {
  Connection* const connection = find(id);
  if (connection == nullptr) return;
  // Requests of the first one may have been on their way until now.
  for (const Transfer& transfer : connection->backlog) {
    handler.on_done(id, transfer.operation(), false);
  }
  for (const auto& [number, posted] : connection->posted) static_cast<void>(give_keys(posted));
  const bool reported = connection->reported;
  release(*connection);
  connections_.erase(id);
  if (reported) handler.on_ended(id);
}

}  // namespace verbena::fabric
