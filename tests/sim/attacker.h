// SPDX-License-Identifier: Apache-2.0
// Someone on the wire who means harm: forges packets from a wrong address, to numbers that do not
// exist and of services nobody speaks, replays what was sent long ago, and answers for a peer what
// cannot be true. None of it may have an effect. (RoCE has no authentication: who knows addresses,
// queue pair numbers and PSNs can forge what is believable; that is not tried.)
#pragma once

#include <cstdint>
#include <deque>
#include <span>
#include <unordered_map>
#include <vector>

#include "sim/rc_pair.h"
#include "sim/ud_group.h"
#include "sim/world.h"

namespace verbena::sim {

class Attacker final : public FrameTap, private link::FrameReceiver {
 public:
  Attacker(World& world, UdGroup* ud);

  void target(RcPair& pair) { pairs_.push_back(&pair); }
  // Never replayed: a queue pair that is used over and over would take an old frame for a new one.
  void spare(const End& end) { spared_.push_back(end); }
  void start(Duration pace) {
    pace_ = pace;
    next();
  }
  void stop() { stopped_ = true; }
  [[nodiscard]] uint64_t strikes() const { return strikes_; }

  void on_frame(const link::FrameEvent& event) override;

 private:
  struct Captured {
    uint32_t to;
    std::vector<uint8_t> frame;
  };
  struct Victim {
    RcPair* pair;
    uint32_t lane;
  };
  void on_arrival(std::vector<uint8_t> /*frame*/, Time /*now*/) override {}
  void next();
  void strike();
  void forge_from_elsewhere();
  void forge_to_nobody();
  void forge_foreign_service();
  void replay();
  void answer_what_was_not_asked();
  void answer_nonsense();
  [[nodiscard]] uint32_t mtu_towards(uint32_t host, Qpn qpn) const;
  [[nodiscard]] bool pick_victim(Victim& victim);
  // Where what the lane sent so far ends.
  [[nodiscard]] wire::Psn sent_end(const Victim& victim) const;
  void deliver(uint32_t host, const wire::Gid& source, std::span<const uint8_t> bth_to_pad);

  World& world_;
  UdGroup* ud_;
  wire::Gid address_;
  std::vector<RcPair*> pairs_;
  std::vector<End> spared_;
  std::deque<Captured> captured_;
  std::unordered_map<uint64_t, wire::Psn> ends_;  // by host and QP number that packets go to
  Duration pace_ = kMillisecond;
  bool stopped_ = false;
  uint64_t strikes_ = 0;
};

}  // namespace verbena::sim
