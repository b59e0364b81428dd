// SPDX-License-Identifier: Apache-2.0
// Extended connection domains (XRC).
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
  return guarded([=] {
    if (!is_alive(xrcd)) return EINVAL;
    return destroy(of(xrcd), [=] { return of(xrcd->context).device.close_xrcd(of(xrcd).xrcd); });
  });
}

}  // namespace verbena::verbs
