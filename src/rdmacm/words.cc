// SPDX-License-Identifier: Apache-2.0
// What can be said of events and identifiers without a connection manager.
#include <netinet/in.h>
#include <rdma/rdma_cma.h>

#include "base/c_interface.h"
#include "rdmacm/newer.h"

VERBENA_EXPORT const char* rdma_event_str(rdma_cm_event_type event) {
#define VERBENA_NAME(event) \
  case event: return #event
  switch (static_cast<int>(event)) {
    VERBENA_NAME(RDMA_CM_EVENT_ADDR_RESOLVED);
    VERBENA_NAME(RDMA_CM_EVENT_ADDR_ERROR);
    VERBENA_NAME(RDMA_CM_EVENT_ROUTE_RESOLVED);
    VERBENA_NAME(RDMA_CM_EVENT_ROUTE_ERROR);
    VERBENA_NAME(RDMA_CM_EVENT_CONNECT_REQUEST);
    VERBENA_NAME(RDMA_CM_EVENT_CONNECT_RESPONSE);
    VERBENA_NAME(RDMA_CM_EVENT_CONNECT_ERROR);
    VERBENA_NAME(RDMA_CM_EVENT_UNREACHABLE);
    VERBENA_NAME(RDMA_CM_EVENT_REJECTED);
    VERBENA_NAME(RDMA_CM_EVENT_ESTABLISHED);
    VERBENA_NAME(RDMA_CM_EVENT_DISCONNECTED);
    VERBENA_NAME(RDMA_CM_EVENT_DEVICE_REMOVAL);
    VERBENA_NAME(RDMA_CM_EVENT_MULTICAST_JOIN);
    VERBENA_NAME(RDMA_CM_EVENT_MULTICAST_ERROR);
    VERBENA_NAME(RDMA_CM_EVENT_ADDR_CHANGE);
    VERBENA_NAME(RDMA_CM_EVENT_TIMEWAIT_EXIT);
    case verbena::rdmacm::kEventAddrinfoResolved: return "RDMA_CM_EVENT_ADDRINFO_RESOLVED";
    case verbena::rdmacm::kEventAddrinfoError:    return "RDMA_CM_EVENT_ADDRINFO_ERROR";
    default:                                      return "UNKNOWN EVENT";
  }
#undef VERBENA_NAME
}

namespace {

[[nodiscard]] __be16 port_of(const sockaddr& address, const sockaddr_in& v4,
                             const sockaddr_in6& v6) {
  switch (address.sa_family) {
    case AF_INET:  return v4.sin_port;
    case AF_INET6: return v6.sin6_port;
    default:       return 0;
  }
}

}  // namespace

VERBENA_EXPORT __be16 rdma_get_src_port(rdma_cm_id* id) {
  const rdma_addr& at = id->route.addr;
  return port_of(at.src_addr, at.src_sin, at.src_sin6);
}

VERBENA_EXPORT __be16 rdma_get_dst_port(rdma_cm_id* id) {
  const rdma_addr& at = id->route.addr;
  return port_of(at.dst_addr, at.dst_sin, at.dst_sin6);
}
