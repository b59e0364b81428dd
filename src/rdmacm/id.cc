// SPDX-License-Identifier: Apache-2.0
#include "rdmacm/id.h"

#include <bit>
#include <cerrno>

#include "base/c_interface.h"
#include "base/mutex.h"
#include "rdmacm/device.h"
#include "rdmacm/failure.h"
#include "rdmacm/multicast.h"
#include "rdmacm/sink.h"

namespace verbena::rdmacm {

wire::Gid CmId::source() const { return std::bit_cast<wire::Gid>(route.addr.addr.ibaddr.sgid.raw); }
wire::Gid CmId::destination() const {
  return std::bit_cast<wire::Gid>(route.addr.addr.ibaddr.dgid.raw);
}

CmId* make_id(Channel* channel, void* context, rdma_port_space space, ibv_qp_type type) {
  auto id = std::make_unique<CmId>();
  const bool alone = channel == nullptr;
  if (alone) channel = Channel::create();
  if (channel == nullptr) return nullptr;
  id->context = context;
  id->ps = space;
  id->qp_type = type;
  id->channel = channel;
  const MutexLock lock(mailbox().mutex);
  id->home = channel;
  id->alone = alone;
  channel->join(*id);
  return id.release();
}

int attach_device(CmId& id) {
  if (id.verbs != nullptr) return 0;
  Device* const device = Device::open();
  if (device == nullptr) return errno;
  id.device = device;
  id.verbs = device->context();
  id.pd = device->pd();
  id.port_num = kPort;
  id.route.addr.addr.ibaddr.pkey = htons(kPkey);
  return 0;
}

void detach_device(CmId& id) {
  id.verbs = nullptr;
  id.pd = nullptr;
  id.port_num = 0;
}

bool has_device(CmId& id) {
  if (id.verbs != nullptr) return true;
  const auto source = id.source_address();
  return source && source->is_loopback() && attach_device(id) == 0;
}

void move_home(CmId& id, Channel& to) {
  Channel& from = *id.home;
  // A request in the queue is its listener's, and goes where that goes.
  for (auto& event : from.remove([&](const Event& e) { return e.counted == &id; })) {
    CmId* const request = event->event == RDMA_CM_EVENT_CONNECT_REQUEST ? &of(event->id) : nullptr;
    to.push(std::move(event));
    if (request != nullptr) move_home(*request, to);
  }
  to.join(id);
  id.channel = id.home = &to;
  from.leave(id);
}

void stop_listening(CmId& id) {
  cm::ListenerId listener{};
  {
    const MutexLock lock(mailbox().mutex);
    listener = id.listener;
  }
  if (listener == cm::ListenerId{}) return;
  id.device->service().unlisten(listener);
  const MutexLock lock(mailbox().mutex);
  id.listener = {};
}

namespace {

// Until all that the program was told of is acknowledged.
void await_acknowledgements(CmId& id) VERBENA_REQUIRES(mailbox().mutex) {
  while (id.acknowledged != id.reported) mailbox().changed.wait(mailbox().mutex);
}

// The service tells nothing more of it once this is done.
void end_exchange(CmId& id) {
  stop_listening(id);
  if (id.comm != cm::CommId{}) {
    id.device->service().release(id.comm);
    forget_request(id.comm, id);
  }
  if (id.claim) id.device->service().give_back(*id.claim);
}

// The mutex is not held. Gives the requests that nobody will answer.
[[nodiscard]] std::vector<CmId*> take_back_events(CmId& id) {
  std::vector<CmId*> requests;
  const MutexLock lock(mailbox().mutex);
  for (const auto& event : id.home->remove([&](const Event& e) { return e.counted == &id; })) {
    if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) requests.push_back(&of(event->id));
  }
  return requests;
}

}  // namespace

void discard_request(CmId& id) {
  id.device = Device::open();  // is open: it told of the request
  if (id.device != nullptr) end_exchange(id);
  (void)take_back_events(id);
  {
    const MutexLock lock(mailbox().mutex);
    id.home->leave(id);
  }
  delete &id;
}

void destroy_id(CmId& id) {
  if (id.device != nullptr) end_exchange(id);
  detach_all(id);
  for (CmId* const request : take_back_events(id)) discard_request(*request);
  drop_event(id);
  Channel* own = nullptr;
  {
    const MutexLock lock(mailbox().mutex);
    await_acknowledgements(id);
    if (id.alone) own = id.home;
    id.home->leave(id);
  }
  if (own != nullptr) own->close();
  delete &id;
}

namespace {

[[nodiscard]] int migrate(CmId& id, Channel* channel) {
  const bool alone = channel == nullptr;
  if (alone && id.is_alone()) return EINVAL;
  if (alone) channel = Channel::create();
  if (channel == nullptr) return errno;
  drop_event(id);
  Channel* own = nullptr;
  {
    const MutexLock lock(mailbox().mutex);
    if (id.alone) own = id.home;
    move_home(id, *channel);
    id.alone = alone;
    await_acknowledgements(id);
  }
  if (own != nullptr) own->close();
  return 0;
}

}  // namespace

}  // namespace verbena::rdmacm

using namespace verbena::rdmacm;

VERBENA_EXPORT int rdma_create_id(rdma_event_channel* channel, rdma_cm_id** id, void* context,
                                  rdma_port_space space) {
  return guarded([=] {
    if (id == nullptr || (channel != nullptr && !is_ours(channel))) return EINVAL;
    ibv_qp_type type = IBV_QPT_RC;
    switch (space) {
      case RDMA_PS_TCP:
      case RDMA_PS_IB:    break;
      case RDMA_PS_UDP:
      case RDMA_PS_IPOIB: type = IBV_QPT_UD; break;
      default:            return EINVAL;
    }
    CmId* const made = make_id(static_cast<Channel*>(channel), context, space, type);
    if (made == nullptr) return errno;
    *id = made;
    return 0;
  });
}

VERBENA_EXPORT int rdma_destroy_id(rdma_cm_id* id) {
  return guarded([=] {
    if (id == nullptr) return EINVAL;
    if (is_ours(id)) destroy_id(of(id));
    return 0;
  });
}

VERBENA_EXPORT int rdma_migrate_id(rdma_cm_id* id, rdma_event_channel* channel) {
  return guarded([=] {
    if (!is_ours(id) || (channel != nullptr && !is_ours(channel))) return EINVAL;
    return migrate(of(id), static_cast<Channel*>(channel));
  });
}
