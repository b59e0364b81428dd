// SPDX-License-Identifier: Apache-2.0
// All processes of one host under a seed, each with its whole device: engine, helper, transport,
// link, membership, rings, credits and sockets. They join and leave, talk to each other, are
// stopped and killed at any step.
//
// What may not happen: a request that does not complete, or fails although its peer is there; a
// message that is lost, comes twice, out of order, or before what was written ahead of it; bytes
// that nobody wrote; two that wait for each other because a third is stopped; a datagram that found
// no room though nobody was killed; and when all is quiet: credits that are not whole, descriptors
// that are left, a helper that finds no rest.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "host_sim/process.h"
#include "members_sim/kernel.h"

namespace verbena::host_sim {

struct Tally {
  uint64_t steps = 0;
  uint64_t messages = 0;
  uint64_t reads = 0;
  uint64_t failed = 0;  // requests to the dead
  uint64_t probes = 0;  // of requests whose answer was late, and time-outs
  uint64_t dropped = 0;
  uint64_t lost = 0;
  uint64_t stops = 0;
  uint64_t kills = 0;
  uint64_t joins = 0;
  uint64_t leaves = 0;
  uint64_t beside = 0;          // messages of others that completed while one was stopped
  Duration longest_beside = 0;  // and how long one of them waited

  friend bool operator==(const Tally&, const Tally&) = default;
};

class World final : private Surroundings {
 public:
  World(uint64_t seed, Tally& tally);
  ~World() override;

  [[nodiscard]] std::vector<std::string> run();

 private:
  // Surroundings
  [[nodiscard]] std::deque<Connection>& connections() override { return connections_; }
  [[nodiscard]] bool stays(uint32_t process) override;
  [[nodiscard]] uint32_t stopped() const override { return stopped_; }
  void violation(const std::string& what) override;

  void start();
  void faults();
  void kill(Process& victim);
  void leave(Process& one);
  void stop(Process& one, Duration most);
  void pause(Duration most);
  [[nodiscard]] bool all_done() const;
  void wait_for_all();
  void look_at_rest();
  void end();
  [[nodiscard]] uint64_t draw(uint64_t bound) { return scheduler_.random().below(bound); }

  Tally& tally_;
  Scheduler scheduler_;
  members_sim::Kernel kernel_;
  ProcessParts parts_;
  std::deque<Connection> connections_;               // stay where they are
  std::vector<std::unique_ptr<Process>> processes_;  // the dead among them
  std::vector<Process*> alive_;
  std::set<uint32_t> gone_;  // killed, or about to leave
  std::set<uint32_t> killed_;
  uint32_t stopped_ = 0;
  bool faults_done_ = false;
  std::vector<std::string> violations_;
};

}  // namespace verbena::host_sim
