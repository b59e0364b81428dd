// SPDX-License-Identifier: Apache-2.0
// Completion queues with wishes about the form of their entries. They are checked as a ConnectX
// does, and change nothing that a program could see (limits.h).
#include <cstdlib>
#include <string_view>

#include <infiniband/mlx5dv.h>

#include "base/c_interface.h"
#include "mlx5/limits.h"
#include "mlx5/service.h"

namespace {

using namespace verbena::mlx5;

[[nodiscard]] bool has(const mlx5dv_cq_init_attr* own, uint64_t what) {
  return own != nullptr && (own->comp_mask & what) != 0;
}

// In bytes; 0: none that there is.
[[nodiscard]] uint32_t entry_size(const mlx5dv_cq_init_attr* own) {
  if (has(own, MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE)) {
    return own->cqe_size == 64 || own->cqe_size == 128 ? own->cqe_size : 0;
  }
  const char* const text = std::getenv("MLX5_CQE_SIZE");  // rdma-core's
  if (text == nullptr || std::string_view(text) == "64") return 64;
  return std::string_view(text) == "128" ? 128 : 0;
}

[[nodiscard]] bool is_valid(const mlx5dv_cq_init_attr* own) {
  constexpr uint64_t kKnown = MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE |
                              MLX5DV_CQ_INIT_ATTR_MASK_FLAGS | MLX5DV_CQ_INIT_ATTR_MASK_CQE_SIZE;
  if (own != nullptr && (own->comp_mask & ~kKnown) != 0) return false;
  const uint32_t size = entry_size(own);
  if (size == 0) return false;
  if (has(own, MLX5DV_CQ_INIT_ATTR_MASK_COMPRESSED_CQE)) {
    const uint32_t format = own->cqe_comp_res_format;
    const bool one = format != 0 && (format & (format - 1)) == 0;
    if (!one || (format & ~kCompressions) != 0) return false;
  }
  if (has(own, MLX5DV_CQ_INIT_ATTR_MASK_FLAGS) && own->flags != 0) {
    return own->flags == MLX5DV_CQ_INIT_ATTR_FLAGS_CQE_PAD && size == 128;
  }
  return true;
}

}  // namespace

VERBENA_EXPORT ibv_cq_ex* mlx5dv_create_cq(ibv_context* context, ibv_cq_init_attr_ex* init,
                                           mlx5dv_cq_init_attr* own) {
  if (context == nullptr || init == nullptr || !is_valid(own)) return none(EINVAL);
  return ibv_create_cq_ex(context, init);
}
