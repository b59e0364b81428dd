// SPDX-License-Identifier: Apache-2.0
// What of a ConnectX's own is not there: raw queues and crypto.
#include <infiniband/mlx5dv.h>

#include "base/refuse.h"

VERBENA_REFUSE(error_number, mlx5dv_crypto_login);
VERBENA_REFUSE(error_number, mlx5dv_crypto_login_query_state);
VERBENA_REFUSE(error_number, mlx5dv_crypto_logout);
VERBENA_REFUSE(null, mlx5dv_crypto_login_create);
VERBENA_REFUSE(error_number, mlx5dv_crypto_login_query);
VERBENA_REFUSE(error_number, mlx5dv_crypto_login_destroy);
VERBENA_REFUSE(null, mlx5dv_dek_create);
VERBENA_REFUSE(error_number, mlx5dv_dek_query);
VERBENA_REFUSE(error_number, mlx5dv_dek_destroy);
VERBENA_REFUSE(error_number, mlx5dv_map_ah_to_qp);
VERBENA_REFUSE(null, mlx5dv_dm_map_op_addr);
VERBENA_REFUSE(null, mlx5dv_create_wq);
VERBENA_REFUSE(error_number, mlx5dv_init_obj);
VERBENA_REFUSE(error_number, mlx5dv_set_context_attr);
VERBENA_REFUSE(error_number, mlx5dv_dci_stream_id_reset);
