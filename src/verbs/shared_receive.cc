// SPDX-License-Identifier: Apache-2.0
// Shared receive queues, XRC's too.
#include <algorithm>

#include "verbs/objects.h"
#include "verbs/operations.h"
#include "verbs/queue_memory.h"

namespace verbena::verbs {
namespace {

[[nodiscard]] ibv_srq* make_srq(ibv_pd* pd, device::SrqRequest request, void* srq_context) {
  if (!has_memory_for("MLX_SRQ_ALLOC_TYPE")) return none(ENOMEM);
  auto srq = std::make_unique<SrqObject>();
  request.entries = std::max<uint32_t>(request.entries, 1);  // at least what was asked for
  request.cookie = srq.get();
  auto made = of(pd->context).device.create_srq(*of(pd).pd, request);
  if (!made) return none(made.error());
  static_cast<ibv_srq&>(*srq) = {};
  srq->context = pd->context;
  srq->srq_context = srq_context;
  srq->pd = pd;
  srq->limits = {.max_wr = request.entries, .max_sge = request.max_sge, .srq_limit = 0};
  ::pthread_mutex_init(&srq->mutex, nullptr);
  ::pthread_cond_init(&srq->cond, nullptr);
  srq->srq = std::move(*made);
  return srq.release();
}

}  // namespace

int get_srq_num(ibv_srq* srq, uint32_t* number) {
  return guarded([=] {
    if (!is_alive(srq) || number == nullptr) return EINVAL;
    const device::Srq& made = *of(srq).srq;
    if (made.xrcd == nullptr) return EINVAL;
    *number = made.queue->id.value;
    return 0;
  });
}

ibv_srq* create_srq_ex(ibv_context* context, ibv_srq_init_attr_ex* init) {
  return guarded([=]() -> ibv_srq* {
    constexpr uint32_t kKnown = IBV_SRQ_INIT_ATTR_TYPE | IBV_SRQ_INIT_ATTR_PD |
                                IBV_SRQ_INIT_ATTR_XRCD | IBV_SRQ_INIT_ATTR_CQ;
    constexpr uint32_t kXrc = kKnown;
    if ((init->comp_mask & ~kKnown) != 0) return none(EOPNOTSUPP);
    if ((init->comp_mask & IBV_SRQ_INIT_ATTR_PD) == 0 || !is_alive(init->pd) ||
        init->pd->context != context) {
      return none(EINVAL);
    }
    const bool typed = (init->comp_mask & IBV_SRQ_INIT_ATTR_TYPE) != 0;
    const ibv_srq_type type = typed ? init->srq_type : IBV_SRQT_BASIC;
    device::SrqRequest request{.entries = init->attr.max_wr, .max_sge = init->attr.max_sge};
    if (type == IBV_SRQT_XRC) {
      if ((init->comp_mask & kXrc) != kXrc || !are_alive(init->xrcd, init->cq)) {
        return none(EINVAL);
      }
      request.xrcd = of(init->xrcd).xrcd.get();
      request.cq = of(init->cq).cq.get();
    } else if (type != IBV_SRQT_BASIC) {
      return none(EOPNOTSUPP);
    }
    return make_srq(init->pd, request, init->srq_context);
  });
}

}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;

VERBENA_EXPORT ibv_srq* ibv_create_srq(ibv_pd* pd, ibv_srq_init_attr* init) {
  if (!is_alive(pd) || init == nullptr) return none(EINVAL);
  return guarded([=] {
    return make_srq(pd, {.entries = init->attr.max_wr, .max_sge = init->attr.max_sge},
                    init->srq_context);
  });
}

VERBENA_EXPORT int ibv_modify_srq(ibv_srq* srq, ibv_srq_attr* attr, int mask) {
  return guarded([=] {
    if (!is_alive(srq) || attr == nullptr) return EINVAL;
    if ((mask & ~static_cast<int>(IBV_SRQ_LIMIT)) != 0) return EOPNOTSUPP;
    const int error = of(srq->context).device.arm_srq(*of(srq).srq, attr->srq_limit);
    if (error == 0) of(srq).limits.srq_limit = attr->srq_limit;
    return error;
  });
}

VERBENA_EXPORT int ibv_query_srq(ibv_srq* srq, ibv_srq_attr* attr) {
  return guarded([=] {
    if (!is_alive(srq) || attr == nullptr) return EINVAL;
    *attr = of(srq).limits;
    return 0;
  });
}

VERBENA_EXPORT int ibv_destroy_srq(ibv_srq* srq) {
  return guarded([=] {
    if (!is_alive(srq)) return EINVAL;
    return destroy(of(srq), [=] {
      const int error = of(srq->context).device.destroy_srq(*of(srq).srq);
      if (error != 0) return error;
      of(srq).doom();
      await_acks(srq->mutex, srq->cond, srq->events_completed, of(srq).srq->events);
      ::pthread_mutex_destroy(&srq->mutex);
      ::pthread_cond_destroy(&srq->cond);
      return 0;
    });
  });
}
