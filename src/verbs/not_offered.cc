// SPDX-License-Identifier: Apache-2.0
// Entry points whose operation is not there; docs/verbs-coverage.md says why.
#include <infiniband/verbs.h>

#include "verbs/objects.h"

using namespace verbena;
using namespace verbena::verbs;

VERBENA_EXPORT ibv_mr* ibv_reg_dmabuf_mr(ibv_pd*, uint64_t, size_t, uint64_t, int, int) {
  return none(EOPNOTSUPP);
}
VERBENA_EXPORT int ibv_query_ece(ibv_qp*, ibv_ece*) { return with_errno(EOPNOTSUPP); }
VERBENA_EXPORT int ibv_set_ece(ibv_qp*, ibv_ece*) { return with_errno(EOPNOTSUPP); }
VERBENA_EXPORT int ibv_query_qp_data_in_order(ibv_qp*, ibv_wr_opcode, uint32_t) { return 0; }
VERBENA_EXPORT int ibv_resolve_eth_l2_from_gid(ibv_context*, ibv_ah_attr*, uint8_t*, uint16_t*) {
  errno = EOPNOTSUPP;
  return -1;
}
