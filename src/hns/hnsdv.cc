// SPDX-License-Identifier: Apache-2.0
// Our device is no HiSilicon: programs that are linked to its library (perftest of rdma-core 54 and
// newer on arm64) load, and are told so. The distribution's needs private names of its libibverbs.
#include <infiniband/verbs.h>

#include "base/refuse.h"

// Of newer headers than rdma-core 44's.
struct hnsdv_context;
struct hnsdv_qp_init_attr;
extern "C" {
ibv_qp* hnsdv_create_qp(ibv_context*, ibv_qp_init_attr_ex*, hnsdv_qp_init_attr*);
int hnsdv_query_device(ibv_context*, hnsdv_context*);
bool hnsdv_is_supported(ibv_device*);
}

VERBENA_REFUSE(null, hnsdv_create_qp);
VERBENA_REFUSE(error_number, hnsdv_query_device);

VERBENA_EXPORT bool hnsdv_is_supported(ibv_device*) { return false; }
