// SPDX-License-Identifier: Apache-2.0
// Our device is no EFA: programs that are linked to its library load, and are told so.
#include <infiniband/efadv.h>

#include "base/refuse.h"

// Of newer headers than rdma-core 44's.
struct efadv_comp_cntr_init_attr;
struct efadv_cq_attr;
struct efadv_mr_attr;
struct efadv_qp;
struct efadv_rq_depth_attr;
struct efadv_sq_depth_attr;
struct efadv_wq_attr;
struct ibv_comp_cntr;
struct ibv_comp_cntr_init_attr;
extern "C" {
int efadv_query_mr(ibv_mr*, efadv_mr_attr*, uint32_t);
int efadv_query_qp_wqs(ibv_qp*, efadv_wq_attr*, efadv_wq_attr*, uint32_t);
int efadv_query_cq(ibv_cq*, efadv_cq_attr*, uint32_t);
efadv_qp* efadv_qp_from_ibv_qp_ex(ibv_qp_ex*);
ibv_comp_cntr* efadv_create_comp_cntr(ibv_context*, ibv_comp_cntr_init_attr*,
                                      efadv_comp_cntr_init_attr*, uint32_t);
}

VERBENA_REFUSE(null, efadv_create_driver_qp);
VERBENA_REFUSE(null, efadv_create_qp_ex);
VERBENA_REFUSE(null, efadv_create_cq);
VERBENA_REFUSE(null, efadv_cq_from_ibv_cq_ex);
VERBENA_REFUSE(error_number, efadv_query_device);
VERBENA_REFUSE(error_number, efadv_query_ah);
VERBENA_REFUSE(error_number, efadv_query_mr);
VERBENA_REFUSE(error_number, efadv_query_qp_wqs);
VERBENA_REFUSE(error_number, efadv_query_cq);
VERBENA_REFUSE(null, efadv_qp_from_ibv_qp_ex);
VERBENA_REFUSE(null, efadv_create_comp_cntr);

// These give a depth, or a negative error number.
VERBENA_EXPORT int efadv_get_max_sq_depth(ibv_context*, efadv_sq_depth_attr*, uint32_t) {
  return -EOPNOTSUPP;
}
VERBENA_EXPORT int efadv_get_max_rq_depth(ibv_context*, efadv_rq_depth_attr*, uint32_t) {
  return -EOPNOTSUPP;
}
