// SPDX-License-Identifier: Apache-2.0
// A ConnectX's own keys, queues and crypto, none of which is there.
#include <infiniband/mlx5dv.h>

#include "base/refuse.h"

VERBENA_EXPORT bool mlx5dv_is_supported(ibv_device*) { return false; }

VERBENA_REFUSE(null, mlx5dv_create_cq);
VERBENA_REFUSE(null, mlx5dv_create_mkey);
VERBENA_REFUSE(error_number, mlx5dv_destroy_mkey);
VERBENA_REFUSE(null, mlx5dv_create_qp);
VERBENA_REFUSE(null, mlx5dv_qp_ex_from_ibv_qp_ex);
VERBENA_REFUSE(error_number, _mlx5dv_mkey_check);
VERBENA_REFUSE(minus_error_number, mlx5dv_qp_cancel_posted_send_wrs);
VERBENA_REFUSE(error_number, mlx5dv_crypto_login);
VERBENA_REFUSE(error_number, mlx5dv_crypto_login_query_state);
VERBENA_REFUSE(error_number, mlx5dv_crypto_logout);
VERBENA_REFUSE(null, mlx5dv_crypto_login_create);
VERBENA_REFUSE(error_number, mlx5dv_crypto_login_query);
VERBENA_REFUSE(error_number, mlx5dv_crypto_login_destroy);
VERBENA_REFUSE(null, mlx5dv_dek_create);
VERBENA_REFUSE(error_number, mlx5dv_dek_query);
VERBENA_REFUSE(error_number, mlx5dv_dek_destroy);
VERBENA_REFUSE(error_number, mlx5dv_query_device);
VERBENA_REFUSE(error_number, mlx5dv_map_ah_to_qp);
VERBENA_REFUSE(null, mlx5dv_alloc_dm);
VERBENA_REFUSE(null, mlx5dv_dm_map_op_addr);
VERBENA_REFUSE(null, mlx5dv_create_wq);
VERBENA_REFUSE(error_number, mlx5dv_init_obj);
VERBENA_REFUSE(error_number, mlx5dv_set_context_attr);
VERBENA_REFUSE(error_number, mlx5dv_get_clock_info);
VERBENA_REFUSE(null, mlx5dv_open_device);
VERBENA_REFUSE(error_number, _mlx5dv_query_port);
VERBENA_REFUSE(error_number, mlx5dv_query_qp_lag_port);
VERBENA_REFUSE(error_number, mlx5dv_modify_qp_lag_port);
VERBENA_REFUSE(error_number, mlx5dv_modify_qp_udp_sport);
VERBENA_REFUSE(error_number, mlx5dv_dci_stream_id_reset);
VERBENA_REFUSE(null, mlx5dv_sched_node_create);
VERBENA_REFUSE(null, mlx5dv_sched_leaf_create);
VERBENA_REFUSE(error_number, mlx5dv_sched_node_modify);
VERBENA_REFUSE(error_number, mlx5dv_sched_leaf_modify);
VERBENA_REFUSE(error_number, mlx5dv_sched_node_destroy);
VERBENA_REFUSE(error_number, mlx5dv_sched_leaf_destroy);
VERBENA_REFUSE(error_number, mlx5dv_modify_qp_sched_elem);
VERBENA_REFUSE(error_number, mlx5dv_reserved_qpn_alloc);
VERBENA_REFUSE(error_number, mlx5dv_reserved_qpn_dealloc);
