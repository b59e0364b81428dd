// SPDX-License-Identifier: Apache-2.0
#include "host_sim/world.h"

#include <algorithm>

#include <unistd.h>

namespace verbena::host_sim {
namespace {

constexpr uint32_t kNobody = 0;
constexpr uint64_t kMostSteps = 20'000'000;
constexpr size_t kMostProcesses = 7;
// So long a message takes at most between two of whom none is stopped.
constexpr Duration kBesideStopped = 100 * kMillisecond;

// Names of their own: several simulators may run on a host, and one world leaves nothing to the
// next.
[[nodiscard]] std::string next_group() {
  static uint64_t worlds = 0;
  return "hosts" + std::to_string(::getpid()) + "-" + std::to_string(++worlds);
}

}  // namespace

World::World(uint64_t seed, Tally& tally)
    : tally_(tally),
      scheduler_(seed),
      kernel_(scheduler_),
      parts_{scheduler_, *this, next_group()} {
  kernel_.gso = draw(4) != 0;
  kernel_.drops = true;
  if (draw(4) == 0) kernel_.loses_one_of = 50 + draw(400);
}

World::~World() {
  for (const auto& process : processes_) process->bury();
}

void World::violation(const std::string& what) {
  violations_.push_back("at " + std::to_string(scheduler_.now() / kMicrosecond) + " us: " + what);
}

bool World::stays(uint32_t process) { return !gone_.contains(process); }

void World::pause(Duration most) {
  scheduler_.sleep_until(scheduler_.now() +
                         static_cast<Duration>(draw(static_cast<uint64_t>(most))));
}

// --- what happens

void World::start() {
  ++tally_.joins;
  const auto id = static_cast<uint32_t>(processes_.size() + 1);
  // With all that are there, and with itself.
  for (const Process* const other : alive_) {
    if (!stays(other->id()) || draw(4) == 0) continue;
    Connection connection;
    connection.ends[0].process = other->id();
    connection.ends[1].process = id;
    connections_.push_back(connection);
  }
  processes_.push_back(std::make_unique<Process>(parts_, id));
  Process& made = *processes_.back();
  alive_.push_back(&made);
  scheduler_.spawn(id, "posts " + std::to_string(id), [&made] { made.run(); });
}

void World::kill(Process& victim) {
  ++tally_.kills;
  gone_.insert(victim.id());
  killed_.insert(victim.id());
  scheduler_.kill(victim.id());
  std::erase(alive_, &victim);
  kernel_.close_all(victim.id());
}

void World::leave(Process& one) {
  ++tally_.leaves;
  gone_.insert(one.id());
  one.ask_to_leave();
}

void World::stop(Process& one, Duration most) {
  constexpr Duration kLooksEvery = kMillisecond;
  ++tally_.stops;
  const Time since = scheduler_.now();
  const Time until = since + static_cast<Duration>(draw(static_cast<uint64_t>(most)));
  const auto sent = [&] {
    uint64_t all = 0;
    for (const auto& process : processes_) all += process->sent_beside(one.id());
    return all;
  };
  const uint64_t before = sent();
  scheduler_.stop(one.id());
  stopped_ = one.id();
  while (scheduler_.now() < until) {
    scheduler_.sleep_until(std::min(until, scheduler_.now() + kLooksEvery));
    if (kernel_.loses_one_of != 0) continue;  // what is lost is sent again, after a while
    for (const Process* const other : alive_) {
      if (other == &one) continue;
      const Duration waits = other->waits_beside(one.id(), since);
      tally_.longest_beside = std::max(tally_.longest_beside, waits);
      if (waits <= kBesideStopped) continue;
      violation("process " + std::to_string(one.id()) +
                " is stopped, and what another posted to a " +
                "third does not complete: " + other->describe());
    }
  }
  tally_.beside += sent() - before;
  stopped_ = 0;
  scheduler_.go_on(one.id());
}

void World::faults() {
  for (uint64_t left = draw(5); left != 0; --left) {
    constexpr std::array<Duration, 3> kPauses{100 * kMicrosecond, 5 * kMillisecond,
                                              50 * kMillisecond};
    pause(kPauses[draw(kPauses.size())]);
    if (alive_.empty()) break;
    Process& one = *alive_[draw(alive_.size())];
    if (!stays(one.id())) continue;
    switch (draw(4)) {
      case 0: kill(one); break;
      case 1: stop(one, draw(2) == 0 ? kMillisecond : 500 * kMillisecond); break;
      case 2:
        if (one.is_open()) leave(one);
        break;
      default:
        if (processes_.size() < kMostProcesses) start();
    }
  }
  faults_done_ = true;
}

// --- from the beginning to the end

bool World::all_done() const {
  if (!violations_.empty()) return true;
  return faults_done_ && std::ranges::all_of(alive_, [](const Process* one) {
           return one->is_leaving() ? one->has_left() : one->is_done();
         });
}

void World::wait_for_all() {
  scheduler_.run(kMostSteps, [this] { return all_done(); });
  if (violations_.empty() && !all_done()) {
    violation("not all get done:" + scheduler_.who_sleeps());
    for (const Process* const one : alive_) {
      if (one->is_open()) violation(one->describe());
    }
  }
}

std::vector<std::string> World::run() {
  for (uint64_t left = 2 + draw(3); left != 0; --left) start();
  scheduler_.spawn(kNobody, "faults", [this] { faults(); });
  wait_for_all();
  if (violations_.empty()) look_at_rest();
  tally_.dropped += kernel_.dropped();
  tally_.lost += kernel_.lost();
  if (violations_.empty() && killed_.empty() && kernel_.dropped() != 0) {
    violation(std::to_string(kernel_.dropped()) + " datagrams found no room");
  }
  for (const auto& process : processes_) {
    tally_.messages += process->messages();
    tally_.reads += process->reads();
    tally_.failed += process->failed();
    if (process->is_open()) tally_.probes += process->probes();
  }
  if (violations_.empty()) end();
  tally_.steps += scheduler_.steps();
  return violations_;
}

void World::look_at_rest() {
  std::erase_if(alive_, [](const Process* one) { return one->has_left(); });
  // What was lost, or is left of the dead, is found within a second after it was quiet.
  constexpr Duration kLook = 12 * kSecond;
  constexpr Duration kRest = 2 * kSecond;
  constexpr uint64_t kMostWakeups = 60;
  bool looked = false;
  std::vector<uint64_t> wakeups;
  scheduler_.spawn(kNobody, "looks", [this, &looked, &wakeups] {
    scheduler_.sleep_until(scheduler_.now() + kLook);
    for (const Process* const one : alive_) wakeups.push_back(one->helper_wakeups());
    scheduler_.sleep_until(scheduler_.now() + kRest);
    looked = true;
  });
  scheduler_.run(kMostSteps, [&] { return looked || !violations_.empty(); });
  if (!violations_.empty()) return;
  if (!looked) return violation("the host finds no rest:" + scheduler_.who_sleeps());
  for (size_t i = 0; i < alive_.size(); ++i) {
    const Process& one = *alive_[i];
    const uint64_t more = one.helper_wakeups() - wakeups[i];
    const std::string name = "process " + std::to_string(one.id());
    if (more > kMostWakeups) {
      violation(name + ": its helper woke " + std::to_string(more) + " times in rest");
    }
    if (const int64_t out = one.credits_out(); out != 0) {
      violation(name + ": " + std::to_string(out) + " of its credits are lost");
    }
  }
}

void World::end() {
  scheduler_.spawn(kNobody, "ends", [this] {
    for (Process* const one : alive_) leave(*one);
  });
  const auto all_left = [this] {
    return std::ranges::all_of(alive_, [](const Process* one) { return one->has_left(); });
  };
  scheduler_.run(kMostSteps, [&] { return all_left() || !violations_.empty(); });
  if (!violations_.empty()) return;
  if (!all_left()) return violation("not all leave:" + scheduler_.who_sleeps());
  if (!kernel_.order().empty()) violation("a socket is left");
}

}  // namespace verbena::host_sim
