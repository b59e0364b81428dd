// SPDX-License-Identifier: Apache-2.0
// World: what is done to the processes.
#include <algorithm>

#include "progress_sim/world.h"

namespace verbena::progress_sim {
namespace {

// Longer than the helper looks up after traffic.
constexpr Duration kLongPause = 40 * kMillisecond;
constexpr Duration kHelperEndsWithin = 10 * kMillisecond;

}  // namespace

// One that has datagrams on their way, if there is one soon: its share is to come back.
Process* World::one_to_kill() {
  for (int i = 0; i < 1000; ++i) {
    const auto found = std::ranges::find_if(
        alive_, [](const Process* process) { return process->has_datagrams_out(); });
    if (found != alive_.end()) return *found;
    pause(20 * kMicrosecond);
  }
  return alive_.front();
}

void World::kill(Process& victim) {
  ++tally_.kills;
  disturbed_ = scheduler_.now();
  if (victim.is_at_work()) killed_at_work_ = true;
  scheduler_.kill(victim.id());
  if (!victim.done_sending) --senders_;
  std::erase(alive_, &victim);
  pause(100 * kMicrosecond);  // until it is noticed
  host_.remove(victim.slot());
  if (draw(2) == 0) return;
  // Its slot is given again when it has rested.
  pause(kLongPause);
  scheduler_.sleep_until(scheduler_.now() + 5 * kMillisecond);
  ++tally_.joins;
  start(victim.slot());
}

void World::leave(Process& leaver) {
  ++tally_.leaves;
  leaver.leaving = true;
  scheduler_.spawn(leaver.id(), "closes " + std::to_string(leaver.id()),
                   [this, &leaver] { close(leaver); });
}

void World::close(Process& process) {
  // What sleeps on a channel is woken, as programs do it: by a message to itself.
  while (process.programs != 0) {
    (void)process.post(process.slot(), 2, 8);
    pause(kMillisecond);
  }
  process.shut_down();
  const Time told = scheduler_.now();
  while (!process.helper_ended()) {
    pause(100 * kMicrosecond);
    if (scheduler_.now() - std::max(told, disturbed_) > kHelperEndsWithin) {
      return violation("a helper does not end");
    }
  }
  std::erase(alive_, &process);
  disturbed_ = scheduler_.now();
  process.leave();
}

void World::faults() {
  const uint64_t count = draw(3) == 0 ? 0 : 1 + draw(3);
  uint8_t next_slot = static_cast<uint8_t>(alive_.size() + 1);
  for (uint64_t i = 0; i < count; ++i) {
    pause(draw(2) == 0 ? 30 * kMillisecond : 300 * kMicrosecond);
    Process& victim = *alive_[draw(alive_.size())];
    disturbed_ = scheduler_.now();
    switch (draw(5)) {
      case 0:
        ++tally_.stops;
        scheduler_.stop(victim.id());
        pause(30 * kMillisecond);
        scheduler_.go_on(victim.id());
        break;
      case 1:
      case 2:
        if (alive_.size() > 1) kill(draw(2) == 0 ? victim : *one_to_kill());
        break;
      case 3:
        if (!victim.leaving && alive_.size() > 1) leave(victim);
        break;
      default:
        if (next_slot >= Process::kPeers) break;
        ++tally_.joins;
        start(next_slot++);
        break;
    }
    disturbed_ = scheduler_.now();
  }
  faults_done_ = true;
}

}  // namespace verbena::progress_sim
