// SPDX-License-Identifier: Apache-2.0
// Entry points whose operation is not there; docs/verbs-coverage.md says why.
#include <infiniband/verbs.h>

#include "verbs/objects.h"

using namespace verbena::verbs;

VERBENA_EXPORT int ibv_attach_mcast(ibv_qp*, const ibv_gid*, uint16_t) { return EOPNOTSUPP; }
VERBENA_EXPORT int ibv_detach_mcast(ibv_qp*, const ibv_gid*, uint16_t) { return EOPNOTSUPP; }
VERBENA_EXPORT int ibv_rereg_mr(ibv_mr*, int, ibv_pd*, void*, size_t, int) {
  errno = EOPNOTSUPP;
  return IBV_REREG_MR_ERR_INPUT;
}
VERBENA_EXPORT ibv_mr* ibv_reg_dmabuf_mr(ibv_pd*, uint64_t, size_t, uint64_t, int, int) {
  return none(EOPNOTSUPP);
}
VERBENA_EXPORT ibv_context* ibv_import_device(int) { return none(EOPNOTSUPP); }
VERBENA_EXPORT ibv_pd* ibv_import_pd(ibv_context*, uint32_t) { return none(EOPNOTSUPP); }
VERBENA_EXPORT void ibv_unimport_pd(ibv_pd*) {}
VERBENA_EXPORT ibv_mr* ibv_import_mr(ibv_pd*, uint32_t) { return none(EOPNOTSUPP); }
VERBENA_EXPORT void ibv_unimport_mr(ibv_mr*) {}
VERBENA_EXPORT ibv_dm* ibv_import_dm(ibv_context*, uint32_t) { return none(EOPNOTSUPP); }
VERBENA_EXPORT void ibv_unimport_dm(ibv_dm*) {}
VERBENA_EXPORT int ibv_query_ece(ibv_qp*, ibv_ece*) { return EOPNOTSUPP; }
VERBENA_EXPORT int ibv_set_ece(ibv_qp*, ibv_ece*) { return EOPNOTSUPP; }
VERBENA_EXPORT int ibv_query_qp_data_in_order(ibv_qp*, ibv_wr_opcode, uint32_t) { return 0; }
VERBENA_EXPORT int ibv_init_ah_from_wc(ibv_context*, uint8_t, ibv_wc*, ibv_grh*, ibv_ah_attr*) {
  errno = EOPNOTSUPP;
  return -1;
}
VERBENA_EXPORT ibv_ah* ibv_create_ah_from_wc(ibv_pd*, ibv_wc*, ibv_grh*, uint8_t) {
  return none(EOPNOTSUPP);
}
VERBENA_EXPORT int ibv_resolve_eth_l2_from_gid(ibv_context*, ibv_ah_attr*, uint8_t*, uint16_t*) {
  errno = EOPNOTSUPP;
  return -1;
}
