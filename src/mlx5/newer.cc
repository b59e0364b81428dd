// SPDX-License-Identifier: Apache-2.0
// What libmlx5 has gained since rdma-core 44, with whose headers this is compiled: all of it is for
// hardware. The declarations are those of newer headers.
#include <cstring>

#include <infiniband/mlx5dv.h>

#include "base/refuse.h"

struct mlx5dv_export_sizes;
#undef mlx5dv_create_flow

extern "C" {
ibv_mr* mlx5dv_reg_dmabuf_mr(ibv_pd*, uint64_t, size_t, uint64_t, int, int, int);
// NOLINTNEXTLINE(readability-identifier-naming,bugprone-reserved-identifier): rdma-core's
ibv_flow* __mlx5dv_create_flow(mlx5dv_flow_matcher*, mlx5dv_flow_match_parameters*, size_t,
                               mlx5dv_flow_action_attr*, size_t);
int mlx5dv_devx_uar_export_dmabuf_fd(mlx5dv_devx_uar*);
int mlx5dv_devx_obj_export(mlx5dv_devx_obj*, void*);
mlx5dv_devx_obj* mlx5dv_devx_obj_import(ibv_context*, void*);
void mlx5dv_devx_obj_unimport(mlx5dv_devx_obj*);
int mlx5dv_devx_umem_export(mlx5dv_devx_umem*, void*);
mlx5dv_devx_umem* mlx5dv_devx_umem_import(ibv_context*, void*);
void mlx5dv_devx_umem_unimport(mlx5dv_devx_umem*);
int mlx5dv_var_export(mlx5dv_var*, void*);
mlx5dv_var* mlx5dv_var_import(ibv_context*, void*);
void mlx5dv_var_unimport(mlx5dv_var*);
}

VERBENA_REFUSE(null, mlx5dv_reg_dmabuf_mr);
VERBENA_REFUSE(null, __mlx5dv_create_flow);
VERBENA_REFUSE(minus_one, mlx5dv_devx_uar_export_dmabuf_fd);
VERBENA_REFUSE(error_number, mlx5dv_devx_obj_export);
VERBENA_REFUSE(null, mlx5dv_devx_obj_import);
VERBENA_REFUSE(nothing, mlx5dv_devx_obj_unimport);
VERBENA_REFUSE(error_number, mlx5dv_devx_umem_export);
VERBENA_REFUSE(null, mlx5dv_devx_umem_import);
VERBENA_REFUSE(nothing, mlx5dv_devx_umem_unimport);
VERBENA_REFUSE(error_number, mlx5dv_var_export);
VERBENA_REFUSE(null, mlx5dv_var_import);
VERBENA_REFUSE(nothing, mlx5dv_var_unimport);

// As a ConnectX without a data direct device says it.
VERBENA_EXPORT int mlx5dv_get_data_direct_sysfs_path(ibv_context*, char*, size_t) {
  return verbena::with_errno(ENODEV);
}

// Nothing can be exported.
// NOLINTNEXTLINE(readability-identifier-naming)
VERBENA_EXPORT void _mlx5dv_get_export_sizes(mlx5dv_export_sizes* sizes, size_t bytes) {
  std::memset(static_cast<void*>(sizes), 0, bytes);
}
