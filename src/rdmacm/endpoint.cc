// SPDX-License-Identifier: Apache-2.0
// Endpoints: an id with all that belongs to it, from what rdma_getaddrinfo() found.
#include <cerrno>
#include <cstdlib>

#include <rdma/rdma_verbs.h>

#include "base/c_interface.h"
#include "rdmacm/connection.h"
#include "rdmacm/failure.h"
#include "rdmacm/qp.h"

namespace verbena::rdmacm {
namespace {

[[nodiscard]] int make_passive(CmId& id, const rdma_addrinfo& found, ibv_pd* pd,
                               const ibv_qp_init_attr* init) {
  const auto source = Address::read(found.ai_src_addr);
  if (!source) return EINVAL;
  if (const int error = bind(id, *source); error != 0) return error;
  if (init != nullptr) {
    id.qp_init = std::make_unique<ibv_qp_init_attr>(*init);
    id.qp_init->qp_type = id.qp_type;
  }
  if (pd != nullptr) id.pd = pd;
  return 0;
}

[[nodiscard]] int make_active(CmId& id, const rdma_addrinfo& found, ibv_pd* pd,
                              ibv_qp_init_attr* init) {
  const auto destination = Address::read(found.ai_dst_addr);
  if (!destination) return EINVAL;
  if (const int error = resolve_address(id, Address::read(found.ai_src_addr), *destination);
      error != 0) {
    return error;
  }
  if (const int error = resolve_route(id); error != 0) return error;
  if (init != nullptr) {
    init->qp_type = id.qp_type;
    if (const int error = create_qp(id, pd, *init); error != 0) return error;
  }
  if (found.ai_connect != nullptr) {
    const auto* const data = static_cast<const uint8_t*>(found.ai_connect);
    id.connect_data.assign(data, data + found.ai_connect_len);
  }
  return 0;
}

[[nodiscard]] int create_endpoint(rdma_cm_id** out, const rdma_addrinfo& found, ibv_pd* pd,
                                  ibv_qp_init_attr* init) {
  CmId* const id = make_id(nullptr, nullptr, static_cast<rdma_port_space>(found.ai_port_space),
                           static_cast<ibv_qp_type>(found.ai_qp_type));
  if (id == nullptr) return errno;
  const int error = (found.ai_flags & RAI_PASSIVE) != 0 ? make_passive(*id, found, pd, init)
                                                        : make_active(*id, found, pd, init);
  if (error != 0) {
    destroy_id(*id);
    return error;
  }
  *out = id;
  return 0;
}

[[nodiscard]] int get_request(CmId& listener, rdma_cm_id** out) {
  if (!listener.is_alone()) return EINVAL;
  drop_event(listener);
  rdma_cm_event* event = nullptr;
  if (rdma_get_cm_event(listener.channel, &event) != 0) return errno;
  int error = std::abs(event->status);
  if (error == 0 && event->event != RDMA_CM_EVENT_CONNECT_REQUEST) error = EINVAL;
  if (error == 0 && listener.qp_init != nullptr) {
    ibv_qp_init_attr init = *listener.qp_init;
    error = create_qp(of(event->id), listener.pd, init);
    if (error != 0) {
      CmId& id = of(event->id);
      (void)rdma_ack_cm_event(event);
      destroy_id(id);
      return error;
    }
  }
  if (error != 0) {
    listener.event = event;
    return error;
  }
  *out = event->id;
  event->id->event = event;
  return 0;
}

}  // namespace
}  // namespace verbena::rdmacm

using namespace verbena::rdmacm;

VERBENA_EXPORT int rdma_create_ep(rdma_cm_id** id, rdma_addrinfo* found, ibv_pd* pd,
                                  ibv_qp_init_attr* init) {
  return guarded([=] {
    if (id == nullptr || found == nullptr) return EINVAL;
    return create_endpoint(id, *found, pd, init);
  });
}

VERBENA_EXPORT void rdma_destroy_ep(rdma_cm_id* id) {
  if (id == nullptr) return;
  rdma_destroy_qp(id);
  rdma_destroy_srq(id);
  (void)rdma_destroy_id(id);
}

VERBENA_EXPORT int rdma_get_request(rdma_cm_id* listener, rdma_cm_id** id) {
  return guarded([=] {
    if (!is_ours(listener) || id == nullptr) return EINVAL;
    return get_request(of(listener), id);
  });
}
