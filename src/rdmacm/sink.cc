// SPDX-License-Identifier: Apache-2.0
#include "rdmacm/sink.h"

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <new>
#include <unordered_map>

#include "rdmacm/channel.h"
#include "rdmacm/id.h"
#include "rdmacm/process.h"

namespace verbena::rdmacm {
namespace {

using cm::EventKind;

[[nodiscard]] Peer peer_of(const cm::Event& from) {
  return {.qp = from.qp,
          .retry_count = from.retry_count,
          .mtu = from.mtu,
          .traffic_class = from.traffic_class,
          .hop_limit = from.hop_limit,
          .local_ack_timeout = from.local_ack_timeout};
}

[[nodiscard]] CmId& listener_of(const cm::Event& from) {
  return *reinterpret_cast<CmId*>(static_cast<uintptr_t>(from.listener_context));
}

[[nodiscard]] ibv_qp_type type_of(const cm::Event& from) {
  if (from.kind == EventKind::kSidrRequest) return IBV_QPT_UD;
  switch (from.qp_kind) {
    case cm::QpKind::kRc:  break;
    case cm::QpKind::kUc:  return IBV_QPT_UC;
    case cm::QpKind::kXrc: return IBV_QPT_XRC_RECV;
  }
  return IBV_QPT_RC;
}

// The two ends of a request: as its private data names them, else as the packets had them.
void set_addresses(CmId& id, const cm::Event& from) {
  const auto& said = from.addresses;
  id.set_source(Address::of(said ? said->destination : from.source, cm::port_of(from.service_id)));
  id.set_destination(
      Address::of(said ? said->source : from.destination, said ? said->source_port : 0));
  rdma_ib_addr& gids = id.route.addr.addr.ibaddr;
  std::copy_n(from.source.bytes.data(), 16, gids.sgid.raw);
  std::copy_n(from.destination.bytes.data(), 16, gids.dgid.raw);
}

// What an event is to the program, where it is nothing but told.
void describe(const cm::Event& from, Event& to) {
  switch (from.kind) {
    case EventKind::kConnectRequest:
    case EventKind::kSidrRequest:     to.event = RDMA_CM_EVENT_CONNECT_REQUEST; break;
    case EventKind::kConnectResponse: to.event = RDMA_CM_EVENT_CONNECT_RESPONSE; break;
    case EventKind::kEstablished:     to.event = RDMA_CM_EVENT_ESTABLISHED; break;
    case EventKind::kRejected:
      to.event = RDMA_CM_EVENT_REJECTED;
      to.status = static_cast<int>(from.reason);
      break;
    case EventKind::kUnreachable:
      to.event = RDMA_CM_EVENT_UNREACHABLE;
      to.status = -ETIMEDOUT;
      break;
    case EventKind::kDisconnectRequested:
    case EventKind::kDisconnected:        to.event = RDMA_CM_EVENT_DISCONNECTED; break;
    case EventKind::kTimewaitExit:        to.event = RDMA_CM_EVENT_TIMEWAIT_EXIT; break;
    case EventKind::kSidrResponse:
      to.event = from.status == cm::SidrStatus::kSuccess ? RDMA_CM_EVENT_ESTABLISHED
                                                         : RDMA_CM_EVENT_UNREACHABLE;
      to.status = static_cast<int>(from.status);
      break;
  }
}

[[nodiscard]] bool carries_private_data(EventKind kind) {
  switch (kind) {
    case EventKind::kConnectRequest:
    case EventKind::kConnectResponse:
    case EventKind::kRejected:
    case EventKind::kSidrRequest:
    case EventKind::kSidrResponse:    return true;
    default:                          return false;
  }
}

[[nodiscard]] State state_after(const cm::Event& from, State now) {
  switch (from.kind) {
    case EventKind::kEstablished:     return State::kConnected;
    case EventKind::kConnectResponse: return now;  // rdma_get_cm_event() knows what comes next
    case EventKind::kSidrResponse:
      return from.status == cm::SidrStatus::kSuccess ? State::kConnected : State::kEnded;
    default: return State::kEnded;
  }
}

class Sink final : public cm::EventSink {
 public:
  void on_event(const cm::Event& from) override {
    try {
      if (from.kind == EventKind::kConnectRequest || from.kind == EventKind::kSidrRequest) {
        on_request(from);
      } else {
        on_progress(from);
      }
    } catch (const std::bad_alloc&) {
      return;  // as if the message had been lost: the exchange runs into its time limits
    }
  }

  void forget(cm::CommId comm, const CmId& id) {
    const MutexLock lock(mailbox().mutex);
    const auto place = requests_.find(comm.value);
    if (place != requests_.end() && place->second == &id) requests_.erase(place);
  }

 private:
  void on_request(const cm::Event& from) {
    auto event = std::make_unique<Event>();
    auto id = std::make_unique<CmId>();
    CmId& listener = listener_of(from);
    const MutexLock lock(mailbox().mutex);
    if (listener.home->is_closed()) return;
    id->context = listener.context;
    id->ps = listener.ps;
    id->qp_type = type_of(from);
    id->comm = from.id;
    id->state = State::kAsked;
    id->peer = peer_of(from);
    set_addresses(*id, from);
    fill(from, *event);
    event->id = id.get();
    event->listen_id = &listener;
    event->counted = &listener;
    id->channel = id->home = listener.home;
    id->home->join(*id);
    try {
      requests_[from.id.value] = id.get();
      id->home->push(std::move(event));
    } catch (const std::bad_alloc&) {
      requests_.erase(from.id.value);
      id->home->leave(*id);
      return;
    }
    (void)id.release();
  }

  void on_progress(const cm::Event& from) {
    auto event = std::make_unique<Event>();
    const MutexLock lock(mailbox().mutex);
    CmId* const id = find(from);
    if (id == nullptr) return;
    id->state = state_after(from, id->state);
    fill(from, *event);
    event->id = event->counted = id;
    id->home->push(std::move(event));
  }

  void fill(const cm::Event& from, Event& to) {
    describe(from, to);
    to.comm = from.id;
    to.peer = peer_of(from);
    if (carries_private_data(from.kind)) to.set_private_data(from.private_data);
  }

  // Those that connect say who they are; requests are known by their number.
  [[nodiscard]] CmId* find(const cm::Event& from) const VERBENA_REQUIRES(mailbox().mutex) {
    if (from.context != 0) return reinterpret_cast<CmId*>(static_cast<uintptr_t>(from.context));
    const auto place = requests_.find(from.id.value);
    return place != requests_.end() ? place->second : nullptr;
  }

  std::unordered_map<uint32_t, CmId*> requests_ VERBENA_GUARDED_BY(mailbox().mutex);
};

[[nodiscard]] Sink& the_sink() { return only<Sink>(); }

}  // namespace

cm::EventSink& sink() { return the_sink(); }

void forget_request(cm::CommId comm, const CmId& id) { the_sink().forget(comm, id); }

}  // namespace verbena::rdmacm
