// SPDX-License-Identifier: Apache-2.0
// The members of one host under a seed: they join, send, take ports and leave; they are stopped and
// killed at any step, in the middle of joining, leaving and repairing as well.
//
// What may not happen: one that cannot join, or waits for ever, or joins slowly though nobody is
// stopped or killed; a datagram that is lost though
// nobody died who had it, or comes twice; more on its way to a member than it has room for; a port
// that two have. When all is quiet: a table that has others in it than who lives, or in another
// order than the kernel's; a program that steers by another; credits that are not whole; a host
// that finds no rest.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "members_sim/kernel.h"
#include "members_sim/letters.h"
#include "members_sim/member.h"

namespace verbena::members_sim {

struct Tally {
  uint64_t steps = 0;
  uint64_t letters = 0;
  uint64_t lost = 0;  // with one that died
  uint64_t refusals = 0;
  uint64_t forwarded = 0;
  uint64_t reaped = 0;
  uint64_t stops = 0;
  uint64_t kills = 0;
  uint64_t joins = 0;
  uint64_t leaves = 0;
  uint64_t suffixes = 0;    // members that could not have the plain name
  uint64_t calm_joins = 0;  // while nobody was stopped or killed,
  Duration longest_join = 0;

  friend bool operator==(const Tally&, const Tally&) = default;
};

class World final : private Neighbourhood {
 public:
  World(uint64_t seed, Tally& tally);
  ~World() override;

  [[nodiscard]] std::vector<std::string> run();

 private:
  // Neighbourhood
  [[nodiscard]] std::optional<Place> anybody() override;
  [[nodiscard]] bool stays(uint32_t process) override;
  [[nodiscard]] bool is_whole() override { return killed_.empty(); }
  [[nodiscard]] std::optional<uint64_t> calm() override;
  void joined(uint32_t process, Duration took) override;
  void violation(const std::string& what) override;
  void port_taken(uint32_t process, uint64_t port) override;
  void port_given_back(uint32_t process, uint64_t port) override;

  // Somebody else has the plain names from now on, and answers nobody.
  void squat();
  void start();
  void faults();
  void kill(Member& victim);
  // At a time that is of interest.
  void kill_one();
  void pause(Duration most);
  [[nodiscard]] bool all_done() const;
  void run_to_rest();
  void check_members();
  void check_letters();
  void check_credits();
  // All leave, one beside the other.
  void end();
  [[nodiscard]] uint64_t draw(uint64_t bound) { return scheduler_.random().below(bound); }

  Tally& tally_;
  Scheduler scheduler_;
  Kernel kernel_;
  Letters letters_;
  MemberParts parts_;
  std::vector<std::unique_ptr<Member>> members_;  // the dead among them
  std::vector<Member*> alive_;
  std::set<uint32_t> killed_;
  std::map<uint64_t, uint32_t> ports_;  // who has them
  std::vector<UniqueFd> squatted_;
  bool faults_done_ = false;
  uint64_t disturbances_ = 0;  // stops and kills
  bool any_stopped_ = false;
  // One died while it joined: nobody may be connected with it yet, and the next change finds it.
  bool killed_joining_ = false;
  std::vector<std::string> violations_;
};

}  // namespace verbena::members_sim
