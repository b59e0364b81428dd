// SPDX-License-Identifier: Apache-2.0
// Memory windows. Binds of type 2 are posted as work requests (post.cc, wr_api.cc).
#include "verbs/objects.h"
#include "verbs/operations.h"

namespace verbena::verbs {

ibv_mw* alloc_mw(ibv_pd* pd, ibv_mw_type type) {
  if (!is_alive(pd)) return none(EINVAL);
  if (type != IBV_MW_TYPE_1 && type != IBV_MW_TYPE_2) return none(EINVAL);
  return guarded([=]() -> ibv_mw* {
    auto mw = std::make_unique<MwObject>();
    const auto key =
        of(pd->context)
            .device.alloc_mw(*of(pd).pd, type == IBV_MW_TYPE_1 ? memory::WindowType::kType1
                                                               : memory::WindowType::kType2);
    if (!key) return none(key.error());
    static_cast<ibv_mw&>(*mw) = {.context = pd->context,
                                 .pd = pd,
                                 .rkey = key->value,
                                 .handle = key->value >> 8,
                                 .type = type};
    return mw.release();
  });
}

int dealloc_mw(ibv_mw* mw) {
  return guarded([=] {
    if (!is_alive(mw)) return EINVAL;
    return destroy(of(mw), [=] { return of(mw->context).device.dealloc_mw(RKey(mw->rkey)); });
  });
}

// Type 1: the library chooses the new key and tells it now; it is good once the bind completed.
int bind_mw(ibv_qp* qp, ibv_mw* mw, ibv_mw_bind* bind) {
  return guarded([=] {
    constexpr unsigned kKnown = IBV_SEND_FENCE | IBV_SEND_SIGNALED;
    if (!are_alive(qp, mw) || bind == nullptr || (bind->send_flags & ~kKnown) != 0) return EINVAL;
    if (!is_usable_in(qp->context, bind->bind_info.mr)) return EINVAL;
    const uint32_t rkey = ibv_inc_rkey(mw->rkey);
    transport::SendRequest request;
    request.wr_id = bind->wr_id;
    request.op = transport::SendOp::kBindWindow;
    request.flags = bind->send_flags;
    request.window = RKey(mw->rkey);
    request.bind = bind_of(bind->bind_info, rkey);
    const int error = of(qp->context).device.post_send(*of(qp).qp, request);
    if (error == 0) mw->rkey = rkey;
    return error;
  });
}

}  // namespace verbena::verbs
