// SPDX-License-Identifier: Apache-2.0
// One simulated world: the clock, the network, the hosts and their memory. It moves from event to
// event and hands completions and events of a queue pair to the actor that owns it. Everything that
// happens follows from one seed.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "base/random.h"
#include "link/faults.h"
#include "link/simulated_network.h"
#include "link/simulated_node.h"
#include "sim/arena.h"
#include "sim/scenes.h"
#include "sim/trace.h"

namespace verbena::sim {

// Owns queue pairs; `end` is the number it registered a queue pair under.
class Actor {
 public:
  virtual ~Actor() = default;
  virtual void on_send_done(uint32_t end, const transport::Completion& completion) = 0;
  virtual void on_receive_done(uint32_t end, const transport::Completion& completion) = 0;
  virtual void on_event(uint32_t /*end*/, transport::Event /*event*/) {}
};

class SrqOwner {
 public:
  virtual ~SrqOwner() = default;
  virtual void on_limit() = 0;
};

struct Host {
  std::unique_ptr<link::SimulatedNode> node;
  std::unique_ptr<Arena> arena;
  PdId pd;        // of all ordinary work
  PdId other_pd;  // for keys that must not work
  uint64_t iova = 0;
};

// Sees every frame on the wire.
class FrameTap {
 public:
  virtual ~FrameTap() = default;
  virtual void on_frame(const link::FrameEvent& event) = 0;
};

class World final : private link::NetworkObserver {
 public:
  World(uint64_t seed, Trace& trace);

  // --- set-up
  void make_network(const link::LinkSpeed& speed, const link::FaultRates& rates);
  uint32_t add_host(link::NodeOptions options, size_t arena_bytes);
  [[nodiscard]] Region register_region(uint32_t host, size_t bytes, uint32_t access,
                                       bool zero_based = false);
  // Registers an existing piece of memory once more, under new keys.
  [[nodiscard]] Region register_again(uint32_t host, const Range& range, uint32_t access, PdId pd);
  void own(uint32_t host, Qpn qpn, Actor& actor, uint32_t end);
  void disown(uint32_t host, Qpn qpn);
  void own_srq(uint32_t host, SrqId srq, SrqOwner& owner);
  void add_tap(FrameTap& tap) { taps_.push_back(&tap); }

  // --- running
  void at(Time when, std::function<void()> action);
  void after(Duration span, std::function<void()> action) { at(now_ + span, std::move(action)); }
  // Runs until done() or `limit`; true when done() held. Ends early when nothing will ever happen.
  bool run(Time limit, const std::function<bool()>& done);
  // An attacker's frame, handled by the host at this very moment.
  void strike(uint32_t host, std::vector<uint8_t> frame);
  // Hands out what the hosts have to say, until they are silent.
  void dispatch();

  [[nodiscard]] Time now() const { return now_; }
  [[nodiscard]] SeededRandom& random() { return random_; }
  // Uniform in [low, high].
  [[nodiscard]] uint64_t draw(uint64_t low, uint64_t high) {
    return low + random_.below(high - low + 1);
  }
  [[nodiscard]] bool chance(uint32_t percent) { return random_.below(100) < percent; }
  [[nodiscard]] Trace& trace() { return trace_; }
  [[nodiscard]] Scenes& scenes() { return scenes_; }
  [[nodiscard]] link::SimulatedNetwork& network() { return *network_; }
  [[nodiscard]] link::RandomFaults& faults() { return *faults_; }
  [[nodiscard]] uint32_t hosts() const { return static_cast<uint32_t>(hosts_.size()); }
  [[nodiscard]] Host& host(uint32_t i) { return hosts_[i]; }
  [[nodiscard]] Arena& arena(uint32_t i) { return *hosts_[i].arena; }
  [[nodiscard]] link::SimulatedNode& node(uint32_t i) { return *hosts_[i].node; }
  [[nodiscard]] transport::Endpoint& endpoint(uint32_t i) { return hosts_[i].node->endpoint(); }
  // Nothing is on its way, no host waits for anything.
  [[nodiscard]] bool silent() const;

 private:
  struct Timer {
    Time when;
    uint64_t order;
    std::function<void()> action;
    [[nodiscard]] bool operator<(const Timer& other) const {
      return when != other.when ? when > other.when : order > other.order;
    }
  };
  struct Owner {
    Actor* actor;
    uint32_t end;
  };
  void on_frame(const link::FrameEvent& event) override;
  void hand_over(uint32_t host, const link::Notice& notice);
  [[nodiscard]] Time next_moment() const;
  void step(Time moment);

  Trace& trace_;
  Scenes scenes_;
  SeededRandom random_;
  Time now_ = 0;
  std::unique_ptr<link::RandomFaults> faults_;
  std::unique_ptr<link::SimulatedNetwork> network_;
  std::vector<Host> hosts_;
  std::vector<FrameTap*> taps_;
  std::vector<Timer> timers_;
  uint64_t next_order_ = 0;
  std::unordered_map<uint64_t, Owner> owners_;  // by host and QP number; only looked up
  std::unordered_map<uint64_t, SrqOwner*> srq_owners_;
};

}  // namespace verbena::sim
