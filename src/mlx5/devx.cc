// SPDX-License-Identifier: Apache-2.0
// Commands to a ConnectX by itself (DEVX), its pages, its rates, its use through VFIO: there is
// none.
#include <infiniband/mlx5dv.h>

#include "base/refuse.h"

VERBENA_REFUSE(null, mlx5dv_get_vfio_device_list);
VERBENA_REFUSE(minus_one, mlx5dv_vfio_get_events_fd);
VERBENA_REFUSE(error_number, mlx5dv_vfio_process_events);
VERBENA_REFUSE(null, mlx5dv_devx_obj_create);
VERBENA_REFUSE(error_number, mlx5dv_devx_obj_query);
VERBENA_REFUSE(error_number, mlx5dv_devx_obj_modify);
VERBENA_REFUSE(error_number, mlx5dv_devx_obj_destroy);
VERBENA_REFUSE(error_number, mlx5dv_devx_general_cmd);
VERBENA_REFUSE(null, mlx5dv_devx_umem_reg);
VERBENA_REFUSE(null, mlx5dv_devx_umem_reg_ex);
VERBENA_REFUSE(error_number, mlx5dv_devx_umem_dereg);
VERBENA_REFUSE(null, mlx5dv_devx_alloc_uar);
VERBENA_REFUSE(nothing, mlx5dv_devx_free_uar);
VERBENA_REFUSE(null, mlx5dv_alloc_var);
VERBENA_REFUSE(nothing, mlx5dv_free_var);
VERBENA_REFUSE(error_number, mlx5dv_devx_query_eqn);
VERBENA_REFUSE(error_number, mlx5dv_devx_cq_query);
VERBENA_REFUSE(error_number, mlx5dv_devx_cq_modify);
VERBENA_REFUSE(error_number, mlx5dv_devx_qp_query);
VERBENA_REFUSE(error_number, mlx5dv_devx_qp_modify);
VERBENA_REFUSE(error_number, mlx5dv_devx_srq_query);
VERBENA_REFUSE(error_number, mlx5dv_devx_srq_modify);
VERBENA_REFUSE(error_number, mlx5dv_devx_wq_query);
VERBENA_REFUSE(error_number, mlx5dv_devx_wq_modify);
VERBENA_REFUSE(error_number, mlx5dv_devx_ind_tbl_query);
VERBENA_REFUSE(error_number, mlx5dv_devx_ind_tbl_modify);
VERBENA_REFUSE(null, mlx5dv_devx_create_cmd_comp);
VERBENA_REFUSE(nothing, mlx5dv_devx_destroy_cmd_comp);
VERBENA_REFUSE(error_number, mlx5dv_devx_obj_query_async);
VERBENA_REFUSE(error_number, mlx5dv_devx_get_async_cmd_comp);
VERBENA_REFUSE(null, mlx5dv_devx_create_event_channel);
VERBENA_REFUSE(nothing, mlx5dv_devx_destroy_event_channel);
VERBENA_REFUSE(error_number, mlx5dv_devx_subscribe_devx_event);
VERBENA_REFUSE(error_number, mlx5dv_devx_subscribe_devx_event_fd);
VERBENA_REFUSE(minus_one_long, mlx5dv_devx_get_event);
VERBENA_REFUSE(null, mlx5dv_pp_alloc);
VERBENA_REFUSE(nothing, mlx5dv_pp_free);
VERBENA_REFUSE(null, mlx5dv_devx_alloc_msi_vector);
VERBENA_REFUSE(error_number, mlx5dv_devx_free_msi_vector);
VERBENA_REFUSE(null, mlx5dv_devx_create_eq);
VERBENA_REFUSE(error_number, mlx5dv_devx_destroy_eq);
