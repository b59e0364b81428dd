// SPDX-License-Identifier: Apache-2.0
#include "rdmacm/multicast.h"

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/c_interface.h"
#include "base/ids.h"
#include "rdmacm/failure.h"
#include "rdmacm/qp.h"

namespace verbena::rdmacm {
namespace {

void detach(Membership& membership) {
  if (membership.attached == nullptr) return;
  (void)ibv_detach_mcast(membership.attached, &membership.group, 0);
  membership.attached = nullptr;
}

[[nodiscard]] int join(CmId& id, const Address& address, bool send_only, void* context) {
  if (!has_device(id) || !id.is_datagram() || !address.is_multicast()) return EINVAL;
  auto membership = std::make_unique<Membership>();
  membership->address = address;
  std::memcpy(membership->group.raw, address.gid().bytes.data(), sizeof membership->group.raw);
  membership->context = context;
  membership->send_only = send_only;
  auto event = std::make_unique<Event>();
  event->id = event->counted = &id;
  event->event = RDMA_CM_EVENT_MULTICAST_JOIN;
  event->membership = membership.get();
  id.memberships.push_back(std::move(membership));
  post(std::move(event));
  return complete(id, {RDMA_CM_EVENT_MULTICAST_JOIN});
}

// Out of the id's list, its events taken back.
[[nodiscard]] std::unique_ptr<Membership> take_out(CmId& id, const Address& address) {
  const auto place = std::ranges::find_if(
      id.memberships, [&](const auto& membership) { return membership->address == address; });
  if (place == id.memberships.end()) return nullptr;
  std::unique_ptr<Membership> left = std::move(*place);
  id.memberships.erase(place);
  const MutexLock lock(mailbox().mutex);
  (void)id.home->remove([&](const Event& event) { return event.membership == left.get(); });
  return left;
}

[[nodiscard]] int leave(CmId& id, const Address& address) {
  const std::unique_ptr<Membership> left = take_out(id, address);
  if (left == nullptr) return EADDRNOTAVAIL;
  detach(*left);
  if (id.event != nullptr && static_cast<Event*>(id.event)->membership == left.get()) {
    drop_event(id);
  }
  const MutexLock lock(mailbox().mutex);
  while (left->acknowledged != left->reported) mailbox().changed.wait(mailbox().mutex);
  return 0;
}

}  // namespace

void finish_join(Event& event) {
  CmId& id = of(event.id);
  Membership& membership = *event.membership;
  rdma_ud_param& to = event.param.ud;
  to.private_data = membership.context;
  to.ah_attr = describe_way(id, membership.group);
  to.qp_num = kMulticastQpn.value;
  to.qkey = RDMA_UDP_QKEY;
  if (id.qp == nullptr || membership.send_only) return;
  const int error = ibv_attach_mcast(id.qp, &membership.group, 0);
  if (error == 0) {
    membership.attached = id.qp;
    return;
  }
  event.event = RDMA_CM_EVENT_MULTICAST_ERROR;
  event.status = -error;
}

void detach_all(CmId& id) {
  for (const auto& membership : id.memberships) detach(*membership);
}

}  // namespace verbena::rdmacm

using namespace verbena::rdmacm;

VERBENA_EXPORT int rdma_join_multicast(rdma_cm_id* id, sockaddr* address, void* context) {
  return guarded([=] {
    const auto group = Address::read(address);
    if (!is_ours(id) || !group) return EINVAL;
    return join(of(id), *group, false, context);
  });
}

VERBENA_EXPORT int rdma_join_multicast_ex(rdma_cm_id* id, rdma_cm_join_mc_attr_ex* attr,
                                          void* context) {
  return guarded([=] {
    if (!is_ours(id) || attr == nullptr) return EINVAL;
    constexpr uint32_t kBoth = RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS;
    if (attr->comp_mask >= RDMA_CM_JOIN_MC_ATTR_RESERVED) return ENOTSUP;
    if ((attr->comp_mask & kBoth) != kBoth) return EINVAL;
    if (attr->join_flags >= RDMA_MC_JOIN_FLAG_RESERVED) return EINVAL;
    const auto group = Address::read(attr->addr);
    if (!group) return EINVAL;
    return join(of(id), *group, attr->join_flags == RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER, context);
  });
}

VERBENA_EXPORT int rdma_leave_multicast(rdma_cm_id* id, sockaddr* address) {
  return guarded([=] {
    const auto group = Address::read(address);
    if (!is_ours(id) || !group) return EINVAL;
    return leave(of(id), *group);
  });
}
