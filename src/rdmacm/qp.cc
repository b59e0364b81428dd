// SPDX-License-Identifier: Apache-2.0
// Making and destroying the queues of an id.
#include "rdmacm/qp.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include <rdma/rdma_verbs.h>

#include "base/c_interface.h"
#include "rdmacm/device.h"
#include "rdmacm/failure.h"
#include "rdmacm/multicast.h"

namespace verbena::rdmacm {

void destroy_queues(CmId& id) {
  // The shared receive queue of an XRC target completes there.
  if (id.qp_type == IBV_QPT_XRC_RECV && id.srq != nullptr) return;
  for (ibv_cq** const cq : {&id.send_cq, &id.recv_cq}) {
    if (*cq != nullptr) (void)ibv_destroy_cq(*cq);
    *cq = nullptr;
  }
  for (ibv_comp_channel** const channel : {&id.send_cq_channel, &id.recv_cq_channel}) {
    if (*channel != nullptr) (void)ibv_destroy_comp_channel(*channel);
    *channel = nullptr;
  }
}

namespace {

[[nodiscard]] bool make_queue(CmId& id, uint32_t entries, ibv_cq*& cq, ibv_comp_channel*& channel) {
  if (entries == 0 || cq != nullptr) return true;
  channel = ibv_create_comp_channel(id.verbs);
  if (channel == nullptr) return false;
  // rdma_get_recv_comp() and its like expect the id as the context.
  cq =
      ibv_create_cq(id.verbs, static_cast<int>(entries), static_cast<rdma_cm_id*>(&id), channel, 0);
  return cq != nullptr;
}

}  // namespace

int make_queues(CmId& id, uint32_t send_entries, uint32_t receive_entries) {
  if (make_queue(id, receive_entries, id.recv_cq, id.recv_cq_channel) &&
      make_queue(id, send_entries, id.send_cq, id.send_cq_channel)) {
    return 0;
  }
  const int error = errno;
  destroy_queues(id);
  return error;
}

namespace {

[[nodiscard]] bool differ(const ibv_cq* own, const ibv_cq* brought) {
  return own != nullptr && brought != nullptr && own != brought;
}

// As far as it goes at once: a connection's to INIT, so that receives can be posted; a datagram's
// to the end.
[[nodiscard]] int start_qp(CmId& id, ibv_qp* qp) {
  for (const ibv_qp_state state : {IBV_QPS_INIT, IBV_QPS_RTR, IBV_QPS_RTS}) {
    ibv_qp_attr attr{};
    attr.qp_state = state;
    int mask = 0;
    if (const int error = describe_qp(id, attr, mask); error != 0) return error;
    if (const int error = ibv_modify_qp(qp, &attr, mask); error != 0) return error;
    if (!id.is_datagram()) break;
  }
  return 0;
}

[[nodiscard]] int create_qp(CmId& id, ibv_qp_init_attr_ex& init) {
  if (!has_device(id) || id.qp != nullptr) return EINVAL;
  if ((init.comp_mask & IBV_QP_INIT_ATTR_PD) == 0 || init.pd == nullptr) {
    init.comp_mask |= IBV_QP_INIT_ATTR_PD;
    init.pd = id.pd;
  }
  if (init.pd == nullptr || init.pd->context != id.verbs) return EINVAL;
  if (differ(id.send_cq, init.send_cq) || differ(id.recv_cq, init.recv_cq)) return EINVAL;
  const bool target = id.qp_type == IBV_QPT_XRC_RECV;
  if (target && ((init.comp_mask & IBV_QP_INIT_ATTR_XRCD) == 0 || init.xrcd == nullptr)) {
    init.xrcd = id.device->xrcd();
    if (init.xrcd == nullptr) return errno;
    init.comp_mask |= IBV_QP_INIT_ATTR_XRCD;
  }
  if (const int error = make_queues(id, init.send_cq != nullptr ? 0 : init.cap.max_send_wr,
                                    init.recv_cq != nullptr ? 0 : init.cap.max_recv_wr);
      error != 0) {
    return error;
  }
  if (init.send_cq == nullptr) init.send_cq = id.send_cq;
  if (init.recv_cq == nullptr) init.recv_cq = id.recv_cq;
  if (init.srq == nullptr) init.srq = id.srq;
  // Devices give at least what a list of that length takes in a work queue, and programs rely on it
  // (rdma_xclient, which asks for nothing).
  init.cap.max_inline_data = std::max(
      init.cap.max_inline_data, init.cap.max_send_sge * static_cast<uint32_t>(sizeof(ibv_sge)));
  ibv_qp* const qp = ibv_create_qp_ex(id.verbs, &init);
  int error = qp == nullptr ? errno : start_qp(id, qp);
  if (error != 0) {
    if (qp != nullptr) (void)ibv_destroy_qp(qp);
    destroy_queues(id);
    return error;
  }
  if (qp->pd != nullptr) id.pd = qp->pd;
  id.qp = qp;
  return 0;
}

}  // namespace

int create_qp(CmId& id, ibv_pd* pd, ibv_qp_init_attr& init) {
  ibv_qp_init_attr_ex whole{};
  std::memcpy(&whole, &init, sizeof init);
  whole.comp_mask = IBV_QP_INIT_ATTR_PD;
  whole.pd = pd;
  const int error = create_qp(id, whole);
  if (error == 0) std::memcpy(&init, &whole, sizeof init);
  return error;
}

void destroy_qp(CmId& id) {
  if (id.qp == nullptr) return;
  detach_all(id);
  (void)ibv_destroy_qp(id.qp);
  id.qp = nullptr;
  destroy_queues(id);
}

}  // namespace verbena::rdmacm

using namespace verbena::rdmacm;

VERBENA_EXPORT int rdma_create_qp(rdma_cm_id* id, ibv_pd* pd, ibv_qp_init_attr* init) {
  if (!is_ours(id) || init == nullptr) return answer(EINVAL);
  return guarded([=] { return create_qp(of(id), pd, *init); });
}

VERBENA_EXPORT int rdma_create_qp_ex(rdma_cm_id* id, ibv_qp_init_attr_ex* init) {
  if (!is_ours(id) || init == nullptr) return answer(EINVAL);
  return guarded([=] { return create_qp(of(id), *init); });
}

VERBENA_EXPORT void rdma_destroy_qp(rdma_cm_id* id) {
  if (is_ours(id)) destroy_qp(of(id));
}
