// SPDX-License-Identifier: Apache-2.0
// Shared receive queues of an id.
#include <cerrno>
#include <cstring>

#include <rdma/rdma_verbs.h>

#include "base/c_interface.h"
#include "rdmacm/device.h"
#include "rdmacm/failure.h"
#include "rdmacm/qp.h"

namespace verbena::rdmacm {
namespace {

// An XRC one needs a domain and a completion queue.
[[nodiscard]] int complete_xrc(CmId& id, ibv_srq_init_attr_ex& init) {
  if ((init.comp_mask & IBV_SRQ_INIT_ATTR_XRCD) == 0 || init.xrcd == nullptr) {
    init.xrcd = id.device->xrcd();
    if (init.xrcd == nullptr) return errno;
  }
  if ((init.comp_mask & IBV_SRQ_INIT_ATTR_CQ) == 0 || init.cq == nullptr) {
    const int error = make_queues(id, 0, init.attr.max_wr);
    if (error != 0) return error;
    init.cq = id.recv_cq;
  }
  init.comp_mask |= IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
  return 0;
}

[[nodiscard]] int create_srq(CmId& id, ibv_srq_init_attr_ex& init) {
  if ((init.comp_mask & IBV_SRQ_INIT_ATTR_TYPE) == 0 || id.srq != nullptr) return EINVAL;
  if (!has_device(id)) return EINVAL;
  if ((init.comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0 || init.pd == nullptr) {
    init.pd = id.pd;
    init.comp_mask |= IBV_SRQ_INIT_ATTR_PD;
  }
  if (init.srq_type == IBV_SRQT_XRC) {
    if (const int error = complete_xrc(id, init); error != 0) return error;
  }
  ibv_srq* const srq = ibv_create_srq_ex(id.verbs, &init);
  if (srq == nullptr) {
    const int error = errno;
    if (id.qp == nullptr) destroy_queues(id);
    return error;
  }
  id.srq = srq;
  return 0;
}

}  // namespace
}  // namespace verbena::rdmacm

using namespace verbena::rdmacm;

VERBENA_EXPORT int rdma_create_srq_ex(rdma_cm_id* id, ibv_srq_init_attr_ex* init) {
  if (!is_ours(id) || init == nullptr) return answer(EINVAL);
  return guarded([=] { return create_srq(of(id), *init); });
}

VERBENA_EXPORT int rdma_create_srq(rdma_cm_id* id, ibv_pd* pd, ibv_srq_init_attr* init) {
  if (!is_ours(id) || init == nullptr) return answer(EINVAL);
  return guarded([=] {
    ibv_srq_init_attr_ex whole{};
    std::memcpy(&whole, init, sizeof *init);
    whole.comp_mask = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD;
    whole.srq_type = id->qp_type == IBV_QPT_XRC_RECV ? IBV_SRQT_XRC : IBV_SRQT_BASIC;
    whole.pd = pd;
    const int error = create_srq(of(id), whole);
    if (error == 0) std::memcpy(init, &whole, sizeof *init);
    return error;
  });
}

VERBENA_EXPORT void rdma_destroy_srq(rdma_cm_id* id) {
  if (!is_ours(id) || id->srq == nullptr) return;
  (void)ibv_destroy_srq(id->srq);
  id->srq = nullptr;
  if (id->qp == nullptr) destroy_queues(of(id));
}
