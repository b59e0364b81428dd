// SPDX-License-Identifier: Apache-2.0
// Queue pairs and address handles.
#include <algorithm>
#include <cstring>

#include "verbs/objects.h"
#include "verbs/operations.h"
#include "verbs/queue_memory.h"

namespace verbena::verbs {
namespace {

using transport::QpAttr;

static_assert(static_cast<int>(transport::QpState::kErr) == IBV_QPS_ERR &&
              static_cast<int>(transport::QpType::kUd) == IBV_QPT_UD &&
              static_cast<int>(transport::Mtu::k4096) == IBV_MTU_4096 &&
              static_cast<int>(transport::kAttrDestQpn) == IBV_QP_DEST_QPN &&
              static_cast<int>(transport::kAttrPath) == IBV_QP_AV &&
              static_cast<int>(transport::kAttrMinRnrTimer) == IBV_QP_MIN_RNR_TIMER);

[[nodiscard]] device::Outcome<transport::Path> resolve(ibv_context* context,
                                                       const ibv_ah_attr& attr) {
  // RoCE has no other addresses.
  if (attr.is_global == 0 || attr.port_num != 1) return fail(EINVAL);
  device::AddressVector vector;
  std::memcpy(vector.destination.bytes.data(), attr.grh.dgid.raw, 16);
  vector.source_index = attr.grh.sgid_index;
  vector.traffic_class = attr.grh.traffic_class;
  vector.hop_limit = attr.grh.hop_limit;
  vector.service_level = attr.sl;
  return of(context).device.device().resolve(vector);
}

[[nodiscard]] bool has_type(ibv_qp_type type) {
  return type == IBV_QPT_RC || type == IBV_QPT_UC || type == IBV_QPT_UD ||
         type == IBV_QPT_XRC_SEND || type == IBV_QPT_XRC_RECV;
}

void translate(const QpAttr& from, ibv_qp_attr& to) {
  to.qp_state = static_cast<ibv_qp_state>(from.state);
  to.cur_qp_state = to.qp_state;
  to.path_mtu = static_cast<ibv_mtu>(from.mtu);
  to.path_mig_state = IBV_MIG_MIGRATED;
  to.qkey = from.qkey;
  to.rq_psn = from.rq_psn.value();
  to.sq_psn = from.sq_psn.value();
  to.dest_qp_num = from.dest_qpn.value;
  to.qp_access_flags = from.access;
  to.pkey_index = from.pkey_index;
  to.en_sqd_async_notify = from.sqd_notify ? 1 : 0;
  to.max_rd_atomic = from.max_rd_atomic;
  to.max_dest_rd_atomic = from.max_dest_rd_atomic;
  to.min_rnr_timer = from.min_rnr_timer;
  to.port_num = from.port;
  to.timeout = from.timeout;
  to.retry_cnt = from.retry_count;
  to.rnr_retry = from.rnr_retry;
}

// XRC's halves: the sender has no receives, the target has neither sends nor receives nor a PD.
// What the program says of those is not looked at.
void leave_out_other_half(ibv_qp_init_attr& init) {
  if (init.qp_type != IBV_QPT_XRC_SEND && init.qp_type != IBV_QPT_XRC_RECV) return;
  init.recv_cq = nullptr;
  init.srq = nullptr;
  init.cap.max_recv_wr = init.cap.max_recv_sge = 0;
  if (init.qp_type == IBV_QPT_XRC_SEND) return;
  init.send_cq = nullptr;
  init.cap.max_send_wr = init.cap.max_send_sge = init.cap.max_inline_data = 0;
}

[[nodiscard]] device::CompletionQueue* queue_of(ibv_cq* cq) {
  return cq != nullptr ? of(cq).cq.get() : nullptr;
}

// What an ibv_qp_init_attr does not say.
struct QpWish {
  bool extended = false;  // for ibv_wr_*
  bool signature_pipelining = false;
  bool block_own_multicast = false;
};

[[nodiscard]] ibv_qp* create_qp(ibv_context* context, ibv_pd* pd, ibv_xrcd* xrcd,
                                ibv_qp_init_attr& init, const QpWish& wish = {}) {
  if (!has_type(init.qp_type)) return none(EOPNOTSUPP);
  leave_out_other_half(init);
  if (!is_usable_in(context, init.send_cq) || !is_usable_in(context, init.recv_cq) ||
      !is_usable_in(context, init.srq)) {
    return none(EINVAL);
  }
  if (!has_memory_for("MLX_QP_ALLOC_TYPE")) return none(ENOMEM);
  device::QpRequest request;
  request.type = static_cast<transport::QpType>(init.qp_type);
  request.send_cq = queue_of(init.send_cq);
  request.recv_cq = queue_of(init.recv_cq);
  request.xrcd = xrcd != nullptr ? of(xrcd).xrcd.get() : nullptr;
  request.srq = init.srq != nullptr ? of(init.srq).srq.get() : nullptr;
  request.send = {init.cap.max_send_wr, init.cap.max_send_sge, init.cap.max_inline_data};
  request.max_recv_entries = init.srq != nullptr ? 0 : init.cap.max_recv_wr;
  request.max_recv_sge = init.srq != nullptr ? 0 : init.cap.max_recv_sge;
  request.signal_all = init.sq_sig_all != 0;
  request.signature_pipelining = wish.signature_pipelining;
  request.block_own_multicast = wish.block_own_multicast;
  auto qp = std::make_unique<QpObject>();
  request.cookie = qp.get();
  device::Pd* const domain = pd != nullptr ? of(pd).pd.get() : nullptr;
  auto made = of(context).device.create_qp(domain, request);
  if (!made) return none(made.error());
  static_cast<ibv_qp_ex&>(*qp) = {};
  ibv_qp& shown = qp->qp_base;
  shown.context = context;
  shown.qp_context = init.qp_context;
  shown.pd = pd;
  shown.send_cq = init.send_cq;
  shown.recv_cq = init.recv_cq;
  shown.srq = init.srq;
  shown.qp_num = shown.handle = (*made)->qpn.value;
  shown.state = IBV_QPS_RESET;
  shown.qp_type = init.qp_type;
  ::pthread_mutex_init(&shown.mutex, nullptr);
  ::pthread_cond_init(&shown.cond, nullptr);
  qp->cap = init.cap;
  qp->signal_all = init.sq_sig_all != 0;
  qp->path = {};
  qp->extended = wish.extended;
  qp->companion = {};
  if (wish.extended) fill_work_calls(*qp);
  qp->qp = std::move(*made);
  return &qp.release()->qp_base;
}

}  // namespace

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* init) {
  return create_qp_ex(context, init, false);
}

ibv_qp* create_qp_ex(ibv_context* context, ibv_qp_init_attr_ex* init, bool signature_pipelining) {
  return guarded([=]() -> ibv_qp* {
    constexpr uint32_t kKnown = IBV_QP_INIT_ATTR_PD | IBV_QP_INIT_ATTR_XRCD |
                                IBV_QP_INIT_ATTR_SEND_OPS_FLAGS | IBV_QP_INIT_ATTR_CREATE_FLAGS;
    constexpr uint64_t kKnownOps = IBV_QP_EX_WITH_RDMA_WRITE | IBV_QP_EX_WITH_RDMA_WRITE_WITH_IMM |
                                   IBV_QP_EX_WITH_SEND | IBV_QP_EX_WITH_SEND_WITH_IMM |
                                   IBV_QP_EX_WITH_RDMA_READ | IBV_QP_EX_WITH_ATOMIC_CMP_AND_SWP |
                                   IBV_QP_EX_WITH_ATOMIC_FETCH_AND_ADD | IBV_QP_EX_WITH_LOCAL_INV |
                                   IBV_QP_EX_WITH_SEND_WITH_INV | IBV_QP_EX_WITH_BIND_MW |
                                   IBV_QP_EX_WITH_ATOMIC_WRITE;
    if ((init->comp_mask & ~kKnown) != 0) return none(EOPNOTSUPP);
    // The others are for raw packets.
    const bool flagged = (init->comp_mask & IBV_QP_INIT_ATTR_CREATE_FLAGS) != 0;
    const uint32_t flags = flagged ? init->create_flags : 0;
    const bool block_own = flags == IBV_QP_CREATE_BLOCK_SELF_MCAST_LB;
    if (flags != 0 && !(block_own && init->qp_type == IBV_QPT_UD)) return none(EOPNOTSUPP);
    const bool extended = (init->comp_mask & IBV_QP_INIT_ATTR_SEND_OPS_FLAGS) != 0;
    if (extended && (init->send_ops_flags & ~kKnownOps) != 0) return none(EOPNOTSUPP);
    const bool target = init->qp_type == IBV_QPT_XRC_RECV;
    const uint32_t wanted = target ? IBV_QP_INIT_ATTR_XRCD : IBV_QP_INIT_ATTR_PD;
    if ((init->comp_mask & wanted) == 0) return none(EINVAL);
    ibv_pd* const pd = target ? nullptr : init->pd;
    ibv_xrcd* const xrcd = target ? init->xrcd : nullptr;
    if (target ? !is_alive(xrcd) : !is_alive(pd) || pd->context != context) return none(EINVAL);
    ibv_qp_init_attr classic;
    std::memcpy(&classic, init, sizeof classic);
    if (extended && (init->send_ops_flags & IBV_QP_EX_WITH_ATOMIC_WRITE) != 0) {
      // The request takes its eight bytes along.
      classic.cap.max_inline_data =
          std::max<uint32_t>(classic.cap.max_inline_data, sizeof(uint64_t));
    }
    ibv_qp* const qp = create_qp(context, pd, xrcd, classic,
                                 {.extended = extended,
                                  .signature_pipelining = signature_pipelining,
                                  .block_own_multicast = block_own});
    if (qp != nullptr) init->cap = classic.cap;
    return qp;
  });
}

}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

VERBENA_EXPORT ibv_qp* ibv_create_qp(ibv_pd* pd, ibv_qp_init_attr* init) {
  if (!is_alive(pd) || init == nullptr) return none(EINVAL);
  return guarded([=] {
    ibv_qp_init_attr wish = *init;
    ibv_qp* const qp = create_qp(pd->context, pd, nullptr, wish);
    if (qp != nullptr) init->cap = wish.cap;  // and nothing else
    return qp;
  });
}

VERBENA_EXPORT ibv_qp_ex* ibv_qp_to_qp_ex(ibv_qp* qp) {
  return is_alive(qp) && of(qp).extended ? &of(qp) : nullptr;
}

namespace {

// Programs name what belongs to the other half of an XRC connection as well; as the kernel does for
// its devices, that is passed over.
[[nodiscard]] int without_other_half(ibv_qp_type type, int mask) {
  switch (type) {
    case IBV_QPT_XRC_SEND: return mask & ~(IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER);
    case IBV_QPT_XRC_RECV:
      return mask & ~(IBV_QP_MAX_QP_RD_ATOMIC | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY);
    default: return mask;
  }
}

}  // namespace

VERBENA_EXPORT int ibv_modify_qp(ibv_qp* qp, ibv_qp_attr* attr, int mask) {
  return guarded([=]() mutable {
    if (!is_alive(qp) || attr == nullptr) return EINVAL;
    mask = without_other_half(qp->qp_type, mask);
    QpAttr to;
    if ((mask & IBV_QP_STATE) != 0) to.state = static_cast<transport::QpState>(attr->qp_state);
    if ((mask & IBV_QP_CUR_STATE) != 0) {
      to.cur_state = static_cast<transport::QpState>(attr->cur_qp_state);
    }
    if ((mask & IBV_QP_AV) != 0) {
      const auto path = resolve(qp->context, attr->ah_attr);
      if (!path) return path.error();
      to.path = *path;
    }
    to.sqd_notify = attr->en_sqd_async_notify != 0;
    to.access = attr->qp_access_flags;
    to.pkey_index = attr->pkey_index;
    to.port = attr->port_num;
    to.qkey = attr->qkey;
    to.mtu = static_cast<transport::Mtu>(attr->path_mtu);
    to.timeout = attr->timeout;
    to.retry_count = attr->retry_cnt;
    to.rnr_retry = attr->rnr_retry;
    to.rq_psn = wire::Psn(attr->rq_psn);
    to.sq_psn = wire::Psn(attr->sq_psn);
    to.max_rd_atomic = attr->max_rd_atomic;
    to.max_dest_rd_atomic = attr->max_dest_rd_atomic;
    to.min_rnr_timer = attr->min_rnr_timer;
    to.dest_qpn = Qpn(attr->dest_qp_num);
    if ((mask & IBV_QP_PKEY_INDEX) != 0 && attr->pkey_index != 0) return EINVAL;
    if ((mask & IBV_QP_PORT) != 0 && attr->port_num != 1) return EINVAL;
    const int error = of(qp->context).device.modify_qp(*of(qp).qp, to, static_cast<uint32_t>(mask));
    if (error != 0) return error;
    if ((mask & IBV_QP_AV) != 0) of(qp).path = attr->ah_attr;
    if ((mask & IBV_QP_STATE) != 0) qp->state = attr->qp_state;
    return 0;
  });
}

VERBENA_EXPORT int ibv_query_qp(ibv_qp* qp, ibv_qp_attr* attr, int, ibv_qp_init_attr* init) {
  return guarded([=] {
    if (!is_alive(qp) || attr == nullptr) return EINVAL;
    const auto now = of(qp->context).device.query_qp(*of(qp).qp);
    if (!now) return now.error();
    *attr = {};
    translate(*now, *attr);
    attr->cap = of(qp).cap;
    attr->ah_attr = of(qp).path;
    qp->state = attr->qp_state;
    if (init == nullptr) return 0;
    *init = {};
    init->qp_context = qp->qp_context;
    init->send_cq = qp->send_cq;
    init->recv_cq = qp->recv_cq;
    init->srq = qp->srq;
    init->cap = of(qp).cap;
    init->qp_type = qp->qp_type;
    init->sq_sig_all = of(qp).signal_all ? 1 : 0;
    return 0;
  });
}

VERBENA_EXPORT int ibv_destroy_qp(ibv_qp* qp) {
  return guarded([=] {
    if (!is_alive(qp)) return EINVAL;
    return destroy(of(qp), [=] {
      const int error = of(qp->context).device.destroy_qp(*of(qp).qp);
      if (error != 0) return error;
      of(qp).doom();
      await_acks(qp->mutex, qp->cond, qp->events_completed, of(qp).qp->events);
      ::pthread_mutex_destroy(&qp->mutex);
      ::pthread_cond_destroy(&qp->cond);
      return 0;
    });
  });
}

VERBENA_EXPORT ibv_ah* ibv_create_ah(ibv_pd* pd, ibv_ah_attr* attr) {
  if (!is_alive(pd) || attr == nullptr) return none(EINVAL);
  return guarded([=]() -> ibv_ah* {
    const auto path = resolve(pd->context, *attr);
    if (!path) return none(path.error());
    auto ah = std::make_unique<AhObject>();
    static_cast<ibv_ah&>(*ah) = {};
    ah->context = pd->context;
    ah->pd = pd;
    ah->path = *path;
    ah->domain = of(pd).pd;
    ++ah->domain->address_handles;
    return ah.release();
  });
}

VERBENA_EXPORT int ibv_destroy_ah(ibv_ah* ah) {
  return guarded([=] {
    if (!is_alive(ah)) return EINVAL;
    return destroy(of(ah), [=] {
      --of(ah).domain->address_handles;
      return 0;
    });
  });
}
