// SPDX-License-Identifier: Apache-2.0
// Multicast groups.
#include "verbs/objects.h"

using namespace verbena::verbs;

namespace {

[[nodiscard]] verbena::wire::Gid group_of(const ibv_gid& gid) {
  return std::bit_cast<verbena::wire::Gid>(gid.raw);
}

}  // namespace

// RoCE has no LIDs.
VERBENA_EXPORT int ibv_attach_mcast(ibv_qp* qp, const ibv_gid* gid, uint16_t) {
  return guarded([=] {
    if (!is_alive(qp) || gid == nullptr) return EINVAL;
    return of(qp->context).device.attach_group(*of(qp).qp, group_of(*gid));
  });
}

VERBENA_EXPORT int ibv_detach_mcast(ibv_qp* qp, const ibv_gid* gid, uint16_t) {
  return guarded([=] {
    if (!is_alive(qp) || gid == nullptr) return EINVAL;
    return of(qp->context).device.detach_group(*of(qp).qp, group_of(*gid));
  });
}
