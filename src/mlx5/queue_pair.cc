// SPDX-License-Identifier: Apache-2.0
// Queue pairs with a ConnectX's own requests.
#include "mlx5/queue_pair.h"

#include "base/c_interface.h"
#include "base/mutex.h"
#include "mlx5/limits.h"

namespace verbena::mlx5 {
namespace {

void refuse(mlx5dv_qp_ex* qp) { service().fail(of(qp).qp, EOPNOTSUPP); }

void wr_set_dc_addr(mlx5dv_qp_ex* qp, ibv_ah*, uint32_t, uint64_t) { refuse(qp); }
void wr_set_dc_addr_stream(mlx5dv_qp_ex* qp, ibv_ah*, uint32_t, uint64_t, uint16_t) { refuse(qp); }
void wr_raw_wqe(mlx5dv_qp_ex* qp, const void*) { refuse(qp); }

void wr_memcpy(mlx5dv_qp_ex* qp, uint32_t to_lkey, uint64_t to, uint32_t from_lkey, uint64_t from,
               size_t length) {
  if (length > kMaxMemcpyBytes) return service().fail(of(qp).qp, EINVAL);
  const auto bytes = static_cast<uint32_t>(length);
  service().copy(of(qp).qp, {to, bytes, LKey(to_lkey)}, {from, bytes, LKey(from_lkey)});
}

// 0, or why there is no such queue pair.
[[nodiscard]] int check(const ibv_qp_init_attr_ex& init, const mlx5dv_qp_init_attr& own) {
  constexpr uint64_t kKnown =
      MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS | MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS;
  constexpr uint64_t kOthers = MLX5DV_QP_INIT_ATTR_MASK_DC | MLX5DV_QP_INIT_ATTR_MASK_DCI_STREAMS;
  // Completions have no data in them: there is nothing to disable.
  constexpr uint32_t kFlags =
      MLX5DV_QP_CREATE_DISABLE_SCATTER_TO_CQE | MLX5DV_QP_CREATE_SIG_PIPELINING;
  constexpr uint64_t kOperations = MLX5DV_QP_EX_WITH_MR_INTERLEAVED | MLX5DV_QP_EX_WITH_MR_LIST |
                                   MLX5DV_QP_EX_WITH_MKEY_CONFIGURE | MLX5DV_QP_EX_WITH_MEMCPY;
  if ((own.comp_mask & ~(kKnown | kOthers)) != 0) return EINVAL;
  if ((own.comp_mask & kOthers) != 0) return EOPNOTSUPP;
  if ((own.comp_mask & MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS) != 0 &&
      (own.create_flags & ~kFlags) != 0) {
    return EOPNOTSUPP;
  }
  if ((own.comp_mask & MLX5DV_QP_INIT_ATTR_MASK_SEND_OPS_FLAGS) == 0 || own.send_ops_flags == 0) {
    return 0;
  }
  if ((init.comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) == 0) return EINVAL;
  const bool has_them =
      init.qp_type == IBV_QPT_RC || init.qp_type == IBV_QPT_UC || init.qp_type == IBV_QPT_XRC_SEND;
  return !has_them || (own.send_ops_flags & ~kOperations) != 0 ? EOPNOTSUPP : 0;
}

}  // namespace

QueuePair* find(ibv_qp* qp) {
  static Mutex mutex;
  keys::Companion* const companion = service().companion(qp);
  if (companion == nullptr) return nullptr;
  const MutexLock lock(mutex);
  auto* const known = reinterpret_cast<QueuePair*>(companion);
  if (known->qp != nullptr) return known;
  auto* const made = new (companion) QueuePair{};
  made->wr_set_dc_addr = wr_set_dc_addr;
  made->wr_set_dc_addr_stream = wr_set_dc_addr_stream;
  made->wr_raw_wqe = wr_raw_wqe;
  made->wr_memcpy = wr_memcpy;
  fill_key_calls(*made);
  made->qp = reinterpret_cast<ibv_qp_ex*>(qp);  // which begins with it
  return made;
}

}  // namespace verbena::mlx5

using namespace verbena;
using namespace verbena::mlx5;

VERBENA_EXPORT ibv_qp* mlx5dv_create_qp(ibv_context* context, ibv_qp_init_attr_ex* init,
                                        mlx5dv_qp_init_attr* own) {
  if (context == nullptr || init == nullptr) return none(EINVAL);
  bool pipelining = false;
  if (own != nullptr) {
    if (const int error = check(*init, *own); error != 0) return none(error);
    pipelining = (own->comp_mask & MLX5DV_QP_INIT_ATTR_MASK_QP_CREATE_FLAGS) != 0 &&
                 (own->create_flags & MLX5DV_QP_CREATE_SIG_PIPELINING) != 0;
  }
  return service().create_qp(context, init, pipelining);
}

VERBENA_EXPORT mlx5dv_qp_ex* mlx5dv_qp_ex_from_ibv_qp_ex(ibv_qp_ex* qp) {
  return qp != nullptr ? find(&qp->qp_base) : nullptr;
}

VERBENA_EXPORT int mlx5dv_qp_cancel_posted_send_wrs(mlx5dv_qp_ex* qp, uint64_t wr_id) {
  if (qp == nullptr) return -EINVAL;
  const auto cancelled = service().cancel_sends(&of(qp).qp->qp_base, wr_id);
  return cancelled ? static_cast<int>(*cancelled) : -cancelled.error();
}
