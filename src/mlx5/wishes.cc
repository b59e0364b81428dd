// SPDX-License-Identifier: Apache-2.0
// Wishes about where a queue pair's packets leave a ConnectX: the port of a bond, the UDP source
// port. Here the host's kernel decides both. They are kept and told back under the ConnectX
// identity alone (identity.h).
#include <infiniband/mlx5dv.h>

#include "base/c_interface.h"
#include "mlx5/identity.h"
#include "mlx5/limits.h"
#include "mlx5/queue_pair.h"

namespace {

using namespace verbena::mlx5;
using verbena::with_errno;

// 0, or why a wish cannot be taken note of.
[[nodiscard]] int check(ibv_qp* qp) {
  if (qp == nullptr || find(qp) == nullptr) return with_errno(EINVAL);
  return with_errno(looks_like_connectx(qp->context) ? 0 : EOPNOTSUPP);
}

}  // namespace

VERBENA_EXPORT int mlx5dv_query_qp_lag_port(ibv_qp* qp, uint8_t* port, uint8_t* active_port) {
  if (port == nullptr || active_port == nullptr) return with_errno(EINVAL);
  if (const int error = check(qp); error != 0) return error;
  const uint8_t chosen = find(qp)->lag_port;
  *port = *active_port = chosen != 0 ? chosen : 1;
  return 0;
}

VERBENA_EXPORT int mlx5dv_modify_qp_lag_port(ibv_qp* qp, uint8_t port) {
  if (const int error = check(qp); error != 0) return error;
  if (port == 0 || port > kLagPorts) return with_errno(EINVAL);
  find(qp)->lag_port = port;
  return 0;
}

VERBENA_EXPORT int mlx5dv_modify_qp_udp_sport(ibv_qp* qp, uint16_t) {
  if (const int error = check(qp); error != 0) return error;
  ibv_qp_attr attr{};
  ibv_qp_init_attr init{};
  if (const int error = ibv_query_qp(qp, &attr, IBV_QP_STATE, &init); error != 0) return error;
  // As a ConnectX: connected queue pairs, once they know their peer.
  const bool connected = qp->qp_type == IBV_QPT_RC || qp->qp_type == IBV_QPT_UC;
  const bool ready = attr.qp_state == IBV_QPS_RTR || attr.qp_state == IBV_QPS_RTS;
  return with_errno(connected && ready ? 0 : EINVAL);
}
