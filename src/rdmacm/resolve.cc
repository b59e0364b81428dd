// SPDX-License-Identifier: Apache-2.0
// Binding, and the way to the peer. Nothing here takes time: the kernel's routes are at hand, and
// the device resolves what is below IP. The events come all the same.
#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>

#include "base/c_interface.h"
#include "rdmacm/connection.h"
#include "rdmacm/device.h"
#include "rdmacm/failure.h"

namespace verbena::rdmacm {
namespace {

// Where Linux takes ports from for who asks for any.
constexpr uint16_t kFirstPort = 32768;
constexpr uint16_t kPorts = 28232;

// Somewhere in the range, and then one after the other.
[[nodiscard]] uint16_t next_port(Device& device) {
  static std::atomic<uint32_t> next{0};
  uint32_t number = next.fetch_add(1, std::memory_order_relaxed);
  if (number == 0) {
    number = device.service().draw_psn().value();
    next.store(number + 1, std::memory_order_relaxed);
  }
  return static_cast<uint16_t>(kFirstPort + number % kPorts);
}

void set_gid(ibv_gid& to, const wire::Gid& gid) {
  std::memcpy(to.raw, gid.bytes.data(), sizeof to.raw);
}

// The id stands at this address of the device's.
[[nodiscard]] int settle_at(CmId& id, const wire::Gid& gid, int error) {
  if (const int failed = attach_device(id); failed != 0) return failed;
  const auto index = id.device->gid_index(gid);
  if (!index) return error;
  id.gid_index = *index;
  set_gid(id.route.addr.addr.ibaddr.sgid, gid);
  return 0;
}

void tell(CmId& id, rdma_cm_event_type type, int error) {
  auto event = std::make_unique<Event>();
  event->id = event->counted = &id;
  event->event = type;
  event->status = -error;
  post(std::move(event));
}

// To Linux a loopback address is a wildcard: no RDMA device has it. Ours has, and programs use it.
// But libfabric, which asks with an id that has no channel, would have its servers listen there
// alone.
[[nodiscard]] bool is_of_no_device(const CmId& id, const Address& address) {
  if (address.is_wildcard()) return true;
  return address.is_loopback() && id.ps == RDMA_PS_TCP && id.is_alone();
}

}  // namespace

uint64_t service_id_of(const CmId& id, uint16_t port) {
  return cm::service_id(static_cast<cm::PortSpace>(id.ps), port);
}

wire::AddressSet bound_to(const CmId& id, const Address& source) {
  if (!source.is_wildcard()) return source.gid();
  if (!id.one_family.value_or(takes_one_family(source.family()))) return {};
  return source.family() == AF_INET ? wire::AddressSet::all_ipv4() : wire::AddressSet::all_ipv6();
}

int claim_port(CmId& id, uint16_t port) {
  const auto source = id.source_address();
  Device* const device = Device::open();
  if (device == nullptr) return errno;
  id.device = device;
  cm::PortClaim claim;
  claim.address = bound_to(id, *source);
  claim.shared = id.shares_port;
  int error = EADDRINUSE;
  for (uint32_t tries = port != 0 ? 1 : kPorts; tries > 0 && error == EADDRINUSE; --tries) {
    const uint16_t wanted = port != 0 ? port : next_port(*device);
    claim.service_id = service_id_of(id, wanted);
    error = device->service().claim(claim);
    // Any port will do, and the host's table is full: rdma_listen() asks again.
    const bool unclaimed = error == ENOSPC && port == 0;
    if (unclaimed) error = 0;
    if (error != 0) continue;
    if (!unclaimed) id.claim = claim;
    Address bound = *source;
    bound.set_port(wanted);
    id.set_source(bound);
  }
  return error;
}

int bind(CmId& id, const Address& address) {
  if (!id.advance(State::kIdle, State::kBound)) return EINVAL;
  int error = 0;
  if (!is_of_no_device(id, address)) {
    error = settle_at(id, address.gid(), EADDRNOTAVAIL);
  }
  id.set_source(address);
  if (error == 0) error = claim_port(id, address.port());
  if (error != 0) {
    id.route.addr.src_storage = {};
    id.state = State::kIdle;
  }
  return error;
}

namespace {

// 0, or what the event shall say.
[[nodiscard]] int find_way(CmId& id, const Address& destination) {
  std::optional<Address> from = id.source_address();
  const uint16_t port = from ? from->port() : 0;
  if (from && from->is_wildcard()) from.reset();
  Address to = destination;
  if (to.is_wildcard()) {
    to = from ? *from : Address::loopback(to.family(), 0);
    to.set_port(destination.port());
  }
  Route route;
  if (const int error = find_route(from, to, route); error != 0) return error;
  if (const int error = settle_at(id, route.source.gid(), ENODEV); error != 0) return error;
  route.source.set_port(port != 0 ? port : next_port(*id.device));
  id.set_source(route.source);
  id.set_destination(to);
  set_gid(id.route.addr.addr.ibaddr.dgid, to.gid());
  id.mtu = std::min(route.mtu, id.device->max_mtu());
  describe_path(id);
  return 0;
}

}  // namespace

int resolve_address(CmId& id, const std::optional<Address>& source, const Address& destination) {
  if (source && source->family() != destination.family()) return EINVAL;
  if (id.state == State::kIdle && source && (!source->is_wildcard() || source->port() != 0)) {
    if (source->port() != 0) {
      if (const int error = bind(id, *source); error != 0) return error;
    } else {
      // The port is for the peer to see. Nobody else is asked about it: the host has fewer to give
      // than a process may have connections.
      id.set_source(*source);
    }
  }
  const State before = id.state;
  if (before != State::kIdle && before != State::kBound) return EINVAL;
  const auto bound = id.source_address();
  if (bound && bound->family() != destination.family()) return EINVAL;
  if (!id.advance(before, State::kAddressResolved)) return EINVAL;
  id.set_destination(destination);
  const int error = find_way(id, destination);
  if (error != 0) id.state = before;
  tell(id, error == 0 ? RDMA_CM_EVENT_ADDR_RESOLVED : RDMA_CM_EVENT_ADDR_ERROR, error);
  return complete(id, {RDMA_CM_EVENT_ADDR_RESOLVED});
}

int resolve_route(CmId& id) {
  if (!id.advance(State::kAddressResolved, State::kRouteResolved)) return EINVAL;
  describe_path(id);
  id.route.path_rec = &id.path;
  id.route.num_paths = 1;
  tell(id, RDMA_CM_EVENT_ROUTE_RESOLVED, 0);
  return complete(id, {RDMA_CM_EVENT_ROUTE_RESOLVED});
}

void describe_path(CmId& id) {
  constexpr uint8_t kExactly = 2;
  constexpr uint8_t kPacketLifeTime = 18;  // about a second, as Linux has it on RoCE
  ibv_sa_path_rec& path = id.path;
  path = {};
  path.dgid = id.route.addr.addr.ibaddr.dgid;
  path.sgid = id.route.addr.addr.ibaddr.sgid;
  path.hop_limit = 64;
  path.traffic_class = id.service_type;
  path.reversible = 1;
  path.numb_path = 1;
  path.pkey = htons(kPkey);
  path.mtu_selector = path.rate_selector = path.packet_life_time_selector = kExactly;
  path.mtu = id.mtu;
  path.rate = IBV_RATE_100_GBPS;
  path.packet_life_time = kPacketLifeTime;
  if (id.ack_timeout && *id.ack_timeout > 0) {
    path.packet_life_time = static_cast<uint8_t>(*id.ack_timeout - 1);
  }
}

}  // namespace verbena::rdmacm

using namespace verbena::rdmacm;

VERBENA_EXPORT int rdma_bind_addr(rdma_cm_id* id, sockaddr* address) {
  return guarded([=] {
    const auto given = Address::read(address);
    if (!is_ours(id) || !given) return EINVAL;
    return bind(of(id), *given);
  });
}

VERBENA_EXPORT int rdma_resolve_addr(rdma_cm_id* id, sockaddr* source, sockaddr* destination, int) {
  return guarded([=] {
    const auto from = Address::read(source);
    const auto to = Address::read(destination);
    if (!is_ours(id) || !to || (source != nullptr && !from)) return EINVAL;
    return resolve_address(of(id), from, *to);
  });
}

VERBENA_EXPORT int rdma_resolve_route(rdma_cm_id* id, int) {
  return guarded([=] { return is_ours(id) ? resolve_route(of(id)) : EINVAL; });
}
