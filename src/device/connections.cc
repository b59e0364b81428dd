// SPDX-License-Identifier: Apache-2.0
#include "device/connections.h"

#include <algorithm>
#include <cerrno>

#include "device/engine.h"
#include "link/numbers.h"

namespace verbena::device {
namespace {

constexpr uint32_t kGsiQkey = 0x80010000;

// Of a claim or a listener.
template <typename T>
[[nodiscard]] link::Port port_of(const T& asked) {
  return {.service_id = asked.service_id, .address = asked.address};
}

[[nodiscard]] link::Ports::Kind kind_of(const cm::PortClaim& claim) {
  return claim.shared ? link::Ports::Kind::kShared : link::Ports::Kind::kBound;
}

}  // namespace

Connections::Connections(Engine& engine, const Parts& parts, uint64_t node_guid,
                         const PeerWatchOptions& watch)
    : engine_(engine),
      link_(parts.link),
      watch_(parts.endpoint, parts.link, watch),
      held_disconnects_([&engine](Qpn qpn, const CompletionMarks& marks) {
        return engine.router().were_polled(qpn, marks);
      }),
      manager_(
          {.slot = parts.link.slot(), .ca_guid = node_guid, .listener_grace = 250 * kMillisecond},
          *this, *this, parts.random) {}

void Connections::receive(const wire::Gid& our, const wire::Gid& peer, const wire::PacketView& view,
                          Time now) {
  engine_.lock().assert_held();
  const bool datagram = view.info->service == wire::Service::kUd && view.info->has(wire::kDeth) &&
                        !view.info->has(wire::kImmDt);
  if (!datagram || our.is_multicast() || view.deth().qkey != kGsiQkey) {
    ++counters_.not_for_gsi;
    return;
  }
  manager_.on_mad(our, peer, view.payload, now);
}

Time Connections::next_timer() const {
  engine_.lock().assert_held();
  return std::min({manager_.next_timer(), watch_.next_tick(), held_disconnects_.next_look()});
}

void Connections::on_timer(Time now) {
  engine_.lock().assert_held();
  if (held_disconnects_.next_look() <= now) tell(held_disconnects_.take_due(now));
  if (manager_.next_timer() <= now) manager_.on_timer(now);
  if (watch_.next_tick() > now) return;
  for (const cm::CommId id : watch_.tick(now)) {
    ++counters_.peers_lost;
    (void)manager_.connection_lost(id, now);
  }
}

void Connections::send_mad(const wire::Gid& source, const wire::Gid& destination,
                           cm::MadBytes mad) {
  engine_.lock().assert_held();
  engine_.send_management(source, destination, kGsiQkey, mad);
}

void Connections::on_event(const cm::Event& event) {
  engine_.lock().assert_held();
  // What arrived before it is seen before it: a program that hears of the end may look no more.
  engine_.publish_completions();
  tell(held_disconnects_.take(event.id));
  const Qpn qpn = watch_.qpn_of(event.id);
  switch (event.kind) {
    case cm::EventKind::kConnectRequest:
    case cm::EventKind::kConnectResponse:
      watch_.add_member(event.id, event.destination, link::first_qpn_beside(event.peer_id),
                        Engine::clock());
      break;
    case cm::EventKind::kRejected:
    case cm::EventKind::kUnreachable:
    case cm::EventKind::kDisconnected:
    case cm::EventKind::kDisconnectRequested: watch_.remove(event.id); break;
    default:                                  break;
  }
  if (event.kind == cm::EventKind::kDisconnectRequested) {
    const CompletionMarks marks = engine_.router().completions_of(qpn);
    if (held_disconnects_.keep(event, qpn, marks, Engine::clock())) return;
  }
  if (sink_ != nullptr) sink_->on_event(event);
}

void Connections::tell(const std::vector<cm::Event>& events) {
  if (sink_ == nullptr) return;
  for (const cm::Event& event : events) sink_->on_event(event);
}

void Connections::set_sink(cm::EventSink* sink) {
  const Engine::Quiet locked(engine_);
  sink_ = sink;
}

int Connections::claim(const cm::PortClaim& claim) {
  return link_.add_port(port_of(claim), kind_of(claim));
}

void Connections::give_back(const cm::PortClaim& claim) {
  link_.remove_port(port_of(claim), kind_of(claim));
}

Result<cm::ListenerId, cm::Error> Connections::listen(const cm::ListenParams& params) {
  const link::Port port = port_of(params);
  // Before the engine's lock is taken. What is asked for in between is refused, as it was before.
  switch (link_.add_port(port, link::Ports::Kind::kListening)) {
    case 0:          break;
    case EADDRINUSE: return fail(cm::Error::kInUse);
    case ETIMEDOUT:  return fail(cm::Error::kTimedOut);
    case ENOSPC:     return fail(cm::Error::kNoPorts);
    default:         return fail(cm::Error::kTooMany);
  }
  const Engine::Quiet locked(engine_);
  const auto id = manager_.listen(params);
  if (!id) {
    link_.remove_port(port, link::Ports::Kind::kListening);
    return fail(id.error());
  }
  listening_.emplace(id->value, port);
  engine_.expect_from_anybody();
  return *id;
}

void Connections::unlisten(cm::ListenerId id) {
  const Engine::Locked locked(engine_);
  const auto place = listening_.find(id.value);
  if (place == listening_.end()) return;
  link_.remove_port(place->second, link::Ports::Kind::kListening);
  listening_.erase(place);
  (void)manager_.unlisten(id);
}

Result<cm::CommId, cm::Error> Connections::connect(const cm::ConnectParams& params) {
  const Engine::Locked locked(engine_);
  engine_.expect_from(params.destination);
  return manager_.connect(params, locked.now());
}

Result<void, cm::Error> Connections::accept(cm::CommId id, const cm::AcceptParams& params) {
  const Engine::Locked locked(engine_);
  return manager_.accept(id, params, locked.now());
}

Result<void, cm::Error> Connections::establish(cm::CommId id,
                                               std::span<const uint8_t> private_data) {
  const Engine::Locked locked(engine_);
  return manager_.establish(id, private_data, locked.now());
}

Result<void, cm::Error> Connections::reject(cm::CommId id, const cm::RejectParams& params) {
  const Engine::Locked locked(engine_);
  const auto done = manager_.reject(id, params, locked.now());
  if (done) watch_.remove(id);
  return done;
}

Result<void, cm::Error> Connections::disconnect(cm::CommId id,
                                                std::span<const uint8_t> private_data) {
  const Engine::Locked locked(engine_);
  tell(held_disconnects_.take(id));
  return manager_.disconnect(id, private_data, locked.now());
}

Result<void, cm::Error> Connections::data_arrived(cm::CommId id) {
  const Engine::Locked locked(engine_);
  return manager_.data_arrived(id, locked.now());
}

Result<void, cm::Error> Connections::set_context(cm::CommId id, uint64_t context) {
  const Engine::Quiet locked(engine_);
  tell(held_disconnects_.take(id));
  return manager_.set_context(id, context);
}

void Connections::release(cm::CommId id) {
  const Engine::Locked locked(engine_);
  (void)held_disconnects_.take(id);  // nobody is left to be told
  watch_.remove(id);
  manager_.release(id, locked.now());
}

Result<cm::CommId, cm::Error> Connections::sidr_request(const cm::SidrRequestParams& params) {
  const Engine::Locked locked(engine_);
  engine_.expect_from(params.destination);
  return manager_.sidr_request(params, locked.now());
}

Result<void, cm::Error> Connections::sidr_reply(cm::CommId id, const cm::SidrReplyParams& params) {
  const Engine::Locked locked(engine_);
  return manager_.sidr_reply(id, params, locked.now());
}

void Connections::watch(cm::CommId id, Qpn qpn) {
  const Engine::Locked locked(engine_);
  watch_.add(id, qpn, locked.now());
}

wire::Psn Connections::draw_psn() { return engine_.draw_psn(); }

}  // namespace verbena::device
