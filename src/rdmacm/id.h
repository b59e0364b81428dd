// SPDX-License-Identifier: Apache-2.0
// A communication identifier: what programs see of it, and what is behind. As with librdmacm, one
// thread at a time makes calls on an id, beside the one that gets its events.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include <rdma/rdma_cma.h>

#include "cm/service.h"
#include "rdmacm/address.h"
#include "rdmacm/channel.h"
#include "wire/psn.h"

namespace verbena::rdmacm {

class Device;

// How far an id has come; what is not for it now is EINVAL.
enum class State : uint8_t {
  kIdle,
  kBound,
  kAddressResolved,
  kRouteResolved,
  kListening,
  kConnecting,  // asked the peer
  kAnswered,    // the peer accepted, and waits for rdma_establish()
  kAsked,       // by the peer; rdma_accept() or rdma_reject() is next
  kAccepting,   // said yes
  kConnected,
  kEnded,
};

// A group that an id has joined.
struct Membership {
  Address address;
  ibv_gid group{};
  void* context = nullptr;
  bool send_only = false;
  ibv_qp* attached = nullptr;
  uint32_t reported VERBENA_GUARDED_BY(mailbox().mutex) = 0;
  uint32_t acknowledged VERBENA_GUARDED_BY(mailbox().mutex) = 0;
};

struct FreeAddrinfo {
  void operator()(rdma_addrinfo* list) const { rdma_freeaddrinfo(list); }
};

struct CmId : rdma_cm_id, ProcessOwned {
  CmId() : rdma_cm_id{} {}

  [[nodiscard]] bool is_datagram() const { return qp_type == IBV_QPT_UD; }
  [[nodiscard]] wire::Gid source() const;
  [[nodiscard]] wire::Gid destination() const;
  void set_source(const Address& address) { address.write(route.addr.src_storage); }
  void set_destination(const Address& address) { address.write(route.addr.dst_storage); }
  [[nodiscard]] std::optional<Address> source_address() const {
    return Address::read(&route.addr.src_addr);
  }
  [[nodiscard]] std::optional<Address> destination_address() const {
    return Address::read(&route.addr.dst_addr);
  }
  // Whether the channel is its own: calls wait.
  [[nodiscard]] bool is_alone() const VERBENA_EXCLUDES(mailbox().mutex) {
    const MutexLock lock(mailbox().mutex);
    return alone;
  }
  // From the one state to the other, if it is in that.
  [[nodiscard]] bool advance(State from, State to) {
    return state.compare_exchange_strong(from, to);
  }

  std::atomic<State> state{State::kIdle};  // the sink ends it
  Device* device = nullptr;                // is asked about ports; bound to it by `verbs`
  cm::CommId comm{};
  std::optional<cm::PortClaim> claim;
  uint8_t gid_index = 0;
  uint8_t mtu = 0;
  wire::Psn psn{};   // the peer's first, which we choose
  uint32_t qpn = 0;  // as the peer was told
  Peer peer{};
  uint8_t responder_resources = 0;
  uint8_t initiator_depth = 0;
  uint8_t retry_count = 7;
  // Options
  uint8_t service_type = 0;
  std::optional<uint8_t> ack_timeout;
  bool shares_port = false;
  std::optional<bool> one_family;  // nothing: as is usual for the address
  // Endpoints: what queue pairs of requests shall be like, and what goes before private data.
  std::unique_ptr<ibv_qp_init_attr> qp_init;
  std::vector<uint8_t> connect_data;
  std::vector<std::unique_ptr<Membership>> memberships;
  ibv_sa_path_rec path{};
  // rdma_resolve_addrinfo() was called; its answer, until rdma_query_addrinfo() takes it.
  std::atomic<bool> resolving = false;
  std::unique_ptr<rdma_addrinfo, FreeAddrinfo> resolved;
  bool failed = false;           // by us, after the peer had accepted: what it says now is no news
  bool disconnect_told = false;  // the event was got

  cm::ListenerId listener VERBENA_GUARDED_BY(mailbox().mutex){};
  Channel* home VERBENA_GUARDED_BY(mailbox().mutex) = nullptr;  // as `channel`
  bool alone VERBENA_GUARDED_BY(mailbox().mutex) = false;
  uint32_t reported VERBENA_GUARDED_BY(mailbox().mutex) = 0;
  uint32_t acknowledged VERBENA_GUARDED_BY(mailbox().mutex) = 0;
};

[[nodiscard]] inline CmId& of(rdma_cm_id* id) { return *static_cast<CmId*>(id); }
// There is one, and it is this process's.
[[nodiscard]] inline bool is_ours(const rdma_cm_id* id) {
  return id != nullptr && static_cast<const CmId*>(id)->is_ours();
}

// A new one, on this channel or on its own. nullptr and errno.
[[nodiscard]] CmId* make_id(Channel* channel, void* context, rdma_port_space space,
                            ibv_qp_type type);
// Requests come no more.
void stop_listening(CmId& id);
// Ends what it has begun, waits until its events are acknowledged.
void destroy_id(CmId& id);
// Of a request whose event was never got.
void discard_request(CmId& id);
// The id uses the device from here on: 0 or an error number.
[[nodiscard]] int attach_device(CmId& id);
void detach_device(CmId& id);
// Whether it has one. An id that is bound to a loopback address gets it when it is needed.
[[nodiscard]] bool has_device(CmId& id);
// Moves it, with its events, to `to`.
void move_home(CmId& id, Channel& to) VERBENA_REQUIRES(mailbox().mutex);

}  // namespace verbena::rdmacm
