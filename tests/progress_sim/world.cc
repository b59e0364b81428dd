// SPDX-License-Identifier: Apache-2.0
#include "progress_sim/world.h"

#include <algorithm>

namespace verbena::progress_sim {
namespace {

// Of threads that belong to no process.
constexpr uint32_t kNobody = 0;

}  // namespace

World::World(uint64_t seed, Tally& tally) : tally_(tally), scheduler_(seed) {}

World::~World() = default;

void World::violation(const std::string& what) {
  violations_.push_back("at " + std::to_string(scheduler_.now() / kMicrosecond) + " us: " + what);
}

void World::start(uint8_t slot) {
  host_.prepare(slot);
  const auto id = static_cast<uint32_t>(processes_.size() + 1);
  const std::string name = std::to_string(slot) + "." + std::to_string(id);
  processes_.push_back(std::make_unique<Process>(
      scheduler_, host_, slot, id,
      [this, name](const std::string& what) { violation("process " + name + ": " + what); }));
  Process& made = *processes_.back();
  made.uses_events = draw(2) != 0;
  alive_.push_back(&made);
  ++senders_;
  scheduler_.spawn(id, "helper " + name, [&made] { made.run_helper(); });
  run_program(made, "sender " + name, &World::sender);
  run_program(made, "receiver " + name, &World::receiver);
  if (draw(3) == 0) run_program(made, "destroyer " + name, &World::destroyer);
  if (draw(4) == 0) run_program(made, "forker " + name, &World::forker);
}

void World::run_program(Process& process, std::string name, void (World::*body)(Process&)) {
  ++process.programs;
  scheduler_.spawn(process.id(), std::move(name), [this, &process, body] {
    (this->*body)(process);
    --process.programs;
  });
}

std::vector<std::string> World::run() {
  const auto members = static_cast<uint8_t>(2 + draw(2));
  for (uint8_t slot = 1; slot <= members; ++slot) start(slot);
  scheduler_.spawn(kNobody, "faults", [this] { faults(); });
  run_threads([this] { return !violations_.empty() || (senders_ == 0 && faults_done_); });
  if (violations_.empty() && senders_ != 0) {
    violation("completions wait for ever; there are:" + scheduler_.who_sleeps());
    for (const Process* const process : alive_) violation(process->describe());
  }
  if (violations_.empty()) run_to_rest();
  if (violations_.empty()) check_rest();
  tally_.steps += scheduler_.steps();
  for (const auto& process : processes_) tally_.wakeups += process->helper_wakeups();
  return violations_;
}

void World::run_to_rest() {
  run_threads([this] { return !violations_.empty(); });
  if (!violations_.empty() || !scheduler_.can_go_on()) return;
  violation("the host finds no rest:" + scheduler_.who_sleeps());
  for (const Process* const process : alive_) violation(process->describe());
}

void World::check_rest() {
  for (Process* const process : alive_) {
    process->check_rest();
    process->check_peers(processes_);
    if (!killed_at_work_) process->check_credits();
  }
  // What one left that died between two instructions is found by who looks, and again after a
  // while.
  scheduler_.spawn(kNobody, "looks", [this] {
    for (int i = 0; i < 4; ++i) {
      for (Process* const process : alive_) process->look_in_passing();
      scheduler_.sleep_until(scheduler_.now() + kSecond);
    }
  });
  run_to_rest();
  for (Process* const process : alive_) process->check_credits();
}

}  // namespace verbena::progress_sim
