// SPDX-License-Identifier: Apache-2.0
// Completion counters: how many operations queue pairs have completed, and how many failed, with no
// queue to poll. They count as work completes, in whichever thread makes progress.
#include <algorithm>
#include <cstring>

#include "verbs/objects.h"

namespace verbena::verbs {
namespace {

// Of a context's.
constexpr uint32_t kMaxCounters = 1 << 16;

[[nodiscard]] int read_value(ibv_comp_cntr* counter,
                             std::atomic<uint64_t> transport::OperationCounter::* field,
                             uint64_t* value) {
  if (!is_alive(counter) || value == nullptr) return with_errno(EINVAL);
  *value = (of(counter).counter.*field).load(std::memory_order_acquire);
  return 0;
}

[[nodiscard]] int set_value(ibv_comp_cntr* counter,
                            std::atomic<uint64_t> transport::OperationCounter::* field,
                            uint64_t value) {
  if (!is_alive(counter)) return with_errno(EINVAL);
  (of(counter).counter.*field).store(value, std::memory_order_release);
  return 0;
}

[[nodiscard]] int increment(ibv_comp_cntr* counter,
                            std::atomic<uint64_t> transport::OperationCounter::* field,
                            uint64_t amount) {
  if (!is_alive(counter)) return with_errno(EINVAL);
  (of(counter).counter.*field).fetch_add(amount, std::memory_order_acq_rel);
  return 0;
}

}  // namespace
}  // namespace verbena::verbs

using namespace verbena;
using namespace verbena::verbs;
using Counted = transport::OperationCounter;

VERBENA_EXPORT int _ibv_query_comp_cntr_caps(ibv_context* context, ibv_comp_cntr_caps* caps,
                                             size_t size) {
  if (!is_alive(context) || caps == nullptr) return with_errno(EINVAL);
  const CompCntrCaps whole{.max_value = UINT64_MAX,
                           .max_counters = kMaxCounters,
                           .supported_qp_attach_ops = transport::kCountableOps};
  std::memset(static_cast<void*>(caps), 0, size);
  std::memcpy(static_cast<void*>(caps), &whole, std::min(size, sizeof whole));
  return 0;
}

VERBENA_EXPORT ibv_comp_cntr* ibv_create_comp_cntr(ibv_context* context,
                                                   ibv_comp_cntr_init_attr* shown) {
  if (!is_alive(context) || shown == nullptr) return none(EINVAL);
  const CompCntrInitAttr& attr = *reinterpret_cast<const CompCntrInitAttr*>(shown);
  if (attr.comp_mask != 0) return none(EOPNOTSUPP);
  if (attr.type != kCountRequests && attr.type != kCountBytes) return none(EOPNOTSUPP);
  if (attr.flags != 0) return none(EINVAL);
  return guarded([&]() -> ibv_comp_cntr* {
    static std::atomic<uint32_t> last_handle{0};
    auto counter = std::make_unique<CounterObject>();
    if (of(context).counters.fetch_add(1) >= kMaxCounters) {
      --of(context).counters;
      return none(ENOMEM);
    }
    counter->context = context;
    counter->handle = ++last_handle;
    counter->counter.in_bytes = attr.type == kCountBytes;
    return reinterpret_cast<ibv_comp_cntr*>(static_cast<CompCntr*>(counter.release()));
  });
}

VERBENA_EXPORT int ibv_destroy_comp_cntr(ibv_comp_cntr* counter) {
  return guarded([=] {
    if (!is_alive(counter)) return EINVAL;
    ContextObject& context = of(of(counter).context);
    return destroy(of(counter), [&] {
      const int error = context.device.retire_counter(of(counter).counter);
      if (error == 0) --context.counters;
      return error;
    });
  });
}

VERBENA_EXPORT int ibv_set_comp_cntr(ibv_comp_cntr* counter, uint64_t value) {
  return set_value(counter, &Counted::done, value);
}
VERBENA_EXPORT int ibv_set_err_comp_cntr(ibv_comp_cntr* counter, uint64_t value) {
  return set_value(counter, &Counted::failed, value);
}
VERBENA_EXPORT int ibv_inc_comp_cntr(ibv_comp_cntr* counter, uint64_t amount) {
  return increment(counter, &Counted::done, amount);
}
VERBENA_EXPORT int ibv_inc_err_comp_cntr(ibv_comp_cntr* counter, uint64_t amount) {
  return increment(counter, &Counted::failed, amount);
}
VERBENA_EXPORT int ibv_read_comp_cntr(ibv_comp_cntr* counter, uint64_t* value) {
  return read_value(counter, &Counted::done, value);
}
VERBENA_EXPORT int ibv_read_err_comp_cntr(ibv_comp_cntr* counter, uint64_t* value) {
  return read_value(counter, &Counted::failed, value);
}

VERBENA_EXPORT int ibv_qp_attach_comp_cntr(ibv_qp* qp, ibv_comp_cntr* counter,
                                           ibv_qp_attach_comp_cntr_attr* shown) {
  return guarded([=] {
    if (!is_alive(qp) || !is_alive(counter) || shown == nullptr) return EINVAL;
    const QpAttachCompCntrAttr& attr = *reinterpret_cast<const QpAttachCompCntrAttr*>(shown);
    if (attr.comp_mask != 0) return EOPNOTSUPP;
    if (of(counter).context != qp->context) return EINVAL;
    return of(qp->context).device.attach_counter(*of(qp).qp, of(counter).counter, attr.op_mask);
  });
}
