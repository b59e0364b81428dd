// SPDX-License-Identifier: Apache-2.0
// Extended connection domains, and shared receive queues with more than the classic call gives.
#include <fcntl.h>
#include <sys/stat.h>

#include "verbs/objects.h"
#include "verbs/operations.h"

namespace verbena::verbs {

ibv_xrcd* open_xrcd(ibv_context* context, ibv_xrcd_init_attr* attr) {
  return guarded([=]() -> ibv_xrcd* {
    if (!is_alive(context) || attr == nullptr) return none(EINVAL);
    constexpr uint32_t kBoth = IBV_XRCD_INIT_ATTR_FD | IBV_XRCD_INIT_ATTR_OFLAGS;
    if ((attr->comp_mask & kBoth) != kBoth) return none(EINVAL);
    if ((attr->comp_mask & ~kBoth) != 0) return none(EOPNOTSUPP);
    if ((attr->oflags & ~(O_CREAT | O_EXCL)) != 0) return none(EINVAL);
    std::optional<device::FileId> file;
    if (attr->fd != -1) {
      struct stat found{};
      if (::fstat(attr->fd, &found) != 0) return nullptr;
      file = device::FileId{found.st_dev, found.st_ino};
    }
    auto object = std::make_unique<XrcdObject>();
    auto xrcd = of(context).device.open_xrcd(file, (attr->oflags & O_CREAT) != 0,
                                             (attr->oflags & O_EXCL) != 0);
    if (!xrcd) return none(xrcd.error());
    object->context = context;
    object->xrcd = std::move(*xrcd);
    return object.release();
  });
}

int close_xrcd(ibv_xrcd* xrcd) {
  if (!is_alive(xrcd)) return EINVAL;
  return destroy(of(xrcd), [=] { return of(xrcd->context).device.close_xrcd(of(xrcd).xrcd); });
}

int get_srq_num(ibv_srq* srq, uint32_t* number) {
  if (!is_alive(srq) || number == nullptr) return EINVAL;
  const device::Srq& made = *of(srq).srq;
  if (made.xrcd == nullptr) return EINVAL;
  *number = made.queue->id.value;
  return 0;
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
