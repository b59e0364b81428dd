// SPDX-License-Identifier: Apache-2.0
// Attributes of queue pairs: what IBA 12.9.8 makes of the messages, in the words of verbs.
#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/c_interface.h"
#include "rdmacm/device.h"
#include "rdmacm/failure.h"
#include "rdmacm/qp.h"

namespace verbena::rdmacm {

ibv_ah_attr describe_way(const CmId& id, const ibv_gid& to) {
  ibv_ah_attr way{};
  way.is_global = 1;
  way.port_num = kPort;
  way.grh.dgid = to;
  way.grh.sgid_index = id.gid_index;
  way.grh.hop_limit = id.path.hop_limit;
  way.grh.traffic_class = id.path.traffic_class;
  return way;
}

namespace {

// Both ends' queue pairs are known.
[[nodiscard]] bool has_peer(const CmId& id) { return id.peer.qp.qpn != Qpn{}; }

[[nodiscard]] bool answers_reads(ibv_qp_type type) {
  return type == IBV_QPT_RC || type == IBV_QPT_XRC_RECV;
}
[[nodiscard]] bool retries(ibv_qp_type type) {
  return type == IBV_QPT_RC || type == IBV_QPT_XRC_SEND;
}

[[nodiscard]] int to_init(const CmId& id, ibv_qp_attr& attr) {
  attr.pkey_index = 0;
  attr.port_num = kPort;
  if (id.is_datagram()) {
    attr.qkey = RDMA_UDP_QKEY;
    return IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
  }
  attr.qp_access_flags = 0;
  if (has_peer(id)) {
    attr.qp_access_flags = IBV_ACCESS_REMOTE_WRITE;
    if (id.responder_resources != 0) {
      attr.qp_access_flags |= IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
    }
  }
  return IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
}

[[nodiscard]] int to_receive(const CmId& id, ibv_qp_attr& attr) {
  if (id.is_datagram()) return 0;
  attr.ah_attr = describe_way(id, id.route.addr.addr.ibaddr.dgid);
  attr.path_mtu = static_cast<ibv_mtu>(id.mtu);
  attr.dest_qp_num = id.peer.qp.qpn.value;
  attr.rq_psn = id.psn.value();
  const int mask = IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  if (!answers_reads(id.qp_type)) return mask;
  attr.max_dest_rd_atomic = id.responder_resources;
  attr.min_rnr_timer = 0;
  return mask | IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
}

[[nodiscard]] int to_send(const CmId& id, ibv_qp_attr& attr) {
  attr.sq_psn = id.peer.qp.psn.value();
  int mask = IBV_QP_SQ_PSN;
  if (retries(id.qp_type) || id.qp_type == IBV_QPT_XRC_RECV) {
    attr.timeout = id.ack_timeout.value_or(id.path.packet_life_time + 1);
    mask |= IBV_QP_TIMEOUT;
  }
  if (!retries(id.qp_type)) return mask;
  attr.retry_cnt = id.retry_count;
  attr.rnr_retry = id.peer.qp.rnr_retry_count;
  attr.max_rd_atomic = id.initiator_depth;
  return mask | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
}

}  // namespace

int describe_qp(const CmId& id, ibv_qp_attr& attr, int& mask) {
  if (id.verbs == nullptr) return EINVAL;
  const ibv_qp_state wanted = attr.qp_state;
  if (wanted != IBV_QPS_INIT && !id.is_datagram() && !has_peer(id)) return EINVAL;
  attr = {};
  attr.qp_state = wanted;
  switch (wanted) {
    case IBV_QPS_INIT: mask = to_init(id, attr); break;
    case IBV_QPS_RTR:  mask = to_receive(id, attr); break;
    case IBV_QPS_RTS:  mask = to_send(id, attr); break;
    default:           return EINVAL;
  }
  mask |= IBV_QP_STATE;
  return 0;
}

namespace {

[[nodiscard]] int move_qp(CmId& id, ibv_qp_state state) {
  ibv_qp_attr attr{};
  attr.qp_state = state;
  int mask = 0;
  if (const int error = describe_qp(id, attr, mask); error != 0) return error;
  return ibv_modify_qp(id.qp, &attr, mask);
}

}  // namespace

int make_ready_to_send(CmId& id) {
  if (id.qp == nullptr) return 0;
  // Again INIT: the access was not known when the queue pair was made.
  for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
    if (const int error = move_qp(id, state); error != 0) return error;
  }
  return 0;
}

int flush_qp(CmId& id) {
  if (id.qp == nullptr) return 0;
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  return ibv_modify_qp(id.qp, &attr, IBV_QP_STATE);
}

}  // namespace verbena::rdmacm

using namespace verbena::rdmacm;

VERBENA_EXPORT int rdma_init_qp_attr(rdma_cm_id* id, ibv_qp_attr* attr, int* mask) {
  if (!is_ours(id) || attr == nullptr || mask == nullptr) return answer(EINVAL);
  return answer(describe_qp(of(id), *attr, *mask));
}
