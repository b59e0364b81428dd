// SPDX-License-Identifier: Apache-2.0
// The connection manager on the wire: the messages of QP1 between the engine and cm::Manager, the
// ports among the processes of the host, the watch over idle peers, and ends that wait to be told.
// The engine's lock guards it. As cm::Service it takes that itself, but not where it waits for
// other processes (ports); the rest is called with the lock held, by the engine and by the manager.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "cm/manager.h"
#include "cm/service.h"
#include "device/engine.h"
#include "device/held_disconnects.h"
#include "device/peer_watch.h"
#include "link/ports.h"
#include "wire/packet.h"

namespace verbena::device {

struct ConnectionCounters {
  uint64_t not_for_gsi = 0;  // packets for QP1 that are no management datagrams
  uint64_t peers_lost = 0;   // connections whose peer was found to be gone
};

class Connections final : public cm::Service, private cm::MadSink, private cm::EventSink {
 public:
  struct Parts {
    transport::Endpoint& endpoint;
    link::Link& link;
    RandomSource& random;
  };
  Connections(Engine& engine, const Parts& parts, uint64_t node_guid,
              const PeerWatchOptions& watch);

  // --- from the engine
  // A packet for QP1, ICRC checked.
  void receive(const wire::Gid& our, const wire::Gid& peer, const wire::PacketView& view, Time now);
  [[nodiscard]] Time next_timer() const;
  void on_timer(Time now);
  // The process ends: peers are told.
  void leave(Time now) {
    engine_.lock().assert_held();
    manager_.leave(now);
  }
  // In a forked child there is nobody to tell.
  void abandon() {
    engine_.lock().assert_held();
    sink_ = nullptr;
  }
  [[nodiscard]] ConnectionCounters counters() const {
    engine_.lock().assert_held();
    return counters_;
  }
  [[nodiscard]] const cm::Counters& manager_counters() const {
    engine_.lock().assert_held();
    return manager_.counters();
  }

  // --- cm::Service
  void set_sink(cm::EventSink* sink) override;
  [[nodiscard]] int claim(const cm::PortClaim& claim) override;
  void give_back(const cm::PortClaim& claim) override;
  [[nodiscard]] Result<cm::ListenerId, cm::Error> listen(const cm::ListenParams& params) override;
  void unlisten(cm::ListenerId id) override;
  [[nodiscard]] Result<cm::CommId, cm::Error> connect(const cm::ConnectParams& params) override;
  [[nodiscard]] Result<void, cm::Error> accept(cm::CommId id,
                                               const cm::AcceptParams& params) override;
  [[nodiscard]] Result<void, cm::Error> establish(cm::CommId id,
                                                  std::span<const uint8_t> private_data) override;
  [[nodiscard]] Result<void, cm::Error> reject(cm::CommId id,
                                               const cm::RejectParams& params) override;
  [[nodiscard]] Result<void, cm::Error> disconnect(cm::CommId id,
                                                   std::span<const uint8_t> private_data) override;
  [[nodiscard]] Result<void, cm::Error> data_arrived(cm::CommId id) override;
  Result<void, cm::Error> set_context(cm::CommId id, uint64_t context) override;
  void release(cm::CommId id) override;
  [[nodiscard]] Result<cm::CommId, cm::Error> sidr_request(
      const cm::SidrRequestParams& params) override;
  [[nodiscard]] Result<void, cm::Error> sidr_reply(cm::CommId id,
                                                   const cm::SidrReplyParams& params) override;
  void watch(cm::CommId id, Qpn qpn) override;
  [[nodiscard]] wire::Psn draw_psn() override;

 private:
  void send_mad(const wire::Gid& source, const wire::Gid& destination, cm::MadBytes mad) override;
  void on_event(const cm::Event& event) override;
  void tell(const std::vector<cm::Event>& events) VERBENA_REQUIRES(engine_.lock());

  Engine& engine_;
  link::Link& link_;  // for ports, which need no lock
  cm::EventSink* sink_ VERBENA_GUARDED_BY(engine_.lock()) = nullptr;
  PeerWatch watch_ VERBENA_GUARDED_BY(engine_.lock());
  HeldDisconnects held_disconnects_ VERBENA_GUARDED_BY(engine_.lock());
  // By listener.
  std::unordered_map<uint64_t, link::Port> listening_ VERBENA_GUARDED_BY(engine_.lock());
  ConnectionCounters counters_ VERBENA_GUARDED_BY(engine_.lock());
  cm::Manager manager_ VERBENA_GUARDED_BY(engine_.lock());
};

}  // namespace verbena::device
