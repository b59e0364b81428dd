// SPDX-License-Identifier: Apache-2.0
// One host of the wired storm: a connection manager whose messages are datagrams of queue pair 1 of
// the transport's endpoint, and programs that connect by it, send each other a few messages over
// the queue pairs that it agreed on, and end. Everything goes over one simulated network.
//
// What it is told must fit: messages arrive whole, once, in order, and those of this connection; a
// send that completed has arrived; no event comes for what has ended.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "base/random.h"
#include "cm/manager.h"
#include "sim/connection.h"
#include "sim/world.h"

namespace verbena::cm_storm {

// How far one end of a connection has come, as its program sees it.
enum class Stage : uint8_t { kConnecting, kLive, kOver, kGone };

struct Call {
  Stage stage = Stage::kConnecting;
  bool active = false;
  uint64_t token = 0;  // drawn by who asks; in every message
  cm::CommId id{};
  uint32_t peer = 0;  // host
  Qpn our_qpn{};
  wire::Psn our_psn{};
  Qpn peer_qpn{};
  wire::Psn peer_psn{};
  bool has_qp = false;
  uint32_t slot = 0;  // of receive memory, while it has a queue pair
  uint32_t to_send = 0;
  uint32_t completed = 0;  // sends
  uint32_t received = 0;
  bool broken = false;  // by the transport, or by an end of ours
};

// What a long run must have seen.
struct Sights {
  enum Kind : uint8_t {
    kConnected,
    kMessage,
    kEarlyData,
    kRejected,
    kUnreachable,
    kDisconnected,
    kEndedBeforeReady,
    kTransportFailed,
    kPeerLost,
    kCount
  };
  static constexpr std::array<const char*, kCount> kText = {
      "ends connected",        "messages delivered",
      "data before RTU",       "rejected",
      "unreachable",           "ended",
      "ended before RTU came", "sends that failed",
      "peers found gone",
  };
  std::array<uint64_t, kCount> seen{};
  void add(Kind kind) { ++seen[kind]; }
};

struct Manners {
  Duration think = 0;        // at most, before an answer
  uint32_t reject_ppm = 0;   // of requests, and of answers
  uint32_t hasty_ppm = 0;    // accepts and ends it at once
  uint32_t stay_ppm = 0;     // is not ended by its program
  uint32_t destroy_ppm = 0;  // ends without a disconnect
  Duration life = kSecond;   // at most, of the others
};

class Station;
// The station of a host.
using Stations = std::function<Station&(uint32_t host)>;

class Station final : private cm::MadSink, private cm::EventSink, private sim::Actor {
 public:
  static constexpr uint32_t kMostMessages = 4;
  static constexpr uint32_t kMessageBytes = 1000;
  static constexpr size_t kSlotBytes = size_t{kMostMessages} * kMessageBytes;
  static constexpr size_t kMemoryBytes = 4 << 20;  // of the host, more than it needs

  Station(sim::World& world, uint32_t host, const cm::Config& config, const Manners& manners,
          Sights& sights, Stations stations);

  void connect(uint32_t peer);
  // As the device does: asks peers that are silent, gives up on those that stay so.
  void watch_peers();
  void release_all();
  // Its programs do nothing more. The network is the caller's to cut.
  void die() { dead_ = true; }
  void require_agreement();
  void require_nothing_left();

  [[nodiscard]] bool dead() const { return dead_; }
  [[nodiscard]] const Call* find(Qpn qpn, wire::Psn psn) const;

 private:
  void send_mad(const wire::Gid& source, const wire::Gid& destination, cm::MadBytes mad) override;
  void on_event(const cm::Event& event) override;
  void on_event(uint32_t /*end*/, transport::Event /*event*/) override {}
  void on_send_done(uint32_t end, const transport::Completion& completion) override;
  void on_receive_done(uint32_t end, const transport::Completion& completion) override;

  // ---- queue pairs (station_qps.cc)
  void make_gsi();
  void post_gsi_receive(uint32_t slot);
  void make_qp(uint32_t number);
  void make_ready(uint32_t number);
  // To ERR now, destroyed when what it says was heard.
  void drop_qp(uint32_t number);
  void send_message(uint32_t number, uint32_t index);
  void check_message(const Call& call, std::span<const uint8_t> bytes);
  [[nodiscard]] std::span<const uint8_t> gsi_memory(uint32_t slot);
  [[nodiscard]] std::span<const uint8_t> memory_of(const Call& call);

  // ---- the programs
  void later(Duration at_most, std::function<void()> what);
  [[nodiscard]] bool chance(uint32_t ppm) { return world_.random().chance_ppm(ppm); }
  [[nodiscard]] uint32_t number_of(cm::CommId id) const;
  void on_request(const cm::Event& event);
  void answer_request(uint32_t number);
  void answer_reply(uint32_t number);
  void become_live(uint32_t number);
  void end(uint32_t number);
  void fail(uint32_t number);
  void on_end(uint32_t number, Stage stage);
  void arm();

  sim::World& world_;
  const uint32_t host_;
  const Manners manners_;
  Sights& sights_;
  const Stations stations_;
  bool dead_ = false;
  bool closing_ = false;
  std::deque<Call> calls_;  // by number; all that ever were
  sim::Region gsi_memory_;
  sim::Region memory_;
  std::vector<uint32_t> free_slots_;
  Time armed_ = kNever;
  SeededRandom random_;
  cm::Manager manager_;
};

}  // namespace verbena::cm_storm
