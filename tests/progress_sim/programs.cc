// SPDX-License-Identifier: Apache-2.0
// World: what the programs do.
#include <algorithm>

#include "progress_sim/world.h"

namespace verbena::progress_sim {
namespace {

constexpr uint32_t kRounds = 10;
constexpr uint32_t kMostMessages = 100;
constexpr uint32_t kQueues = 6;  // that one process destroys
// Longer than the helper looks up after traffic, which is so long.
constexpr Duration kLongPause = 40 * kMillisecond;
constexpr Duration kLooksUpFor = 20 * kMillisecond;
// So long a completion may take while everybody runs: a lease, a thread that was expected back, and
// a few ticks; of many messages each, where they have to wait for room again and again.
constexpr Duration kBound = 10 * kMillisecond;
constexpr Duration kBoundOfEach = 200 * kMicrosecond;

}  // namespace

void World::pause(Duration most) {
  const Time end = scheduler_.now() + static_cast<Duration>(draw(static_cast<uint64_t>(most)));
  scheduler_.sleep_until(end);
}

// Until a helper looks up, most often for the last time before it sleeps for good: what happens
// just then is of interest.
void World::pause_with_helper(uint8_t slot) {
  const auto found = std::ranges::find(alive_, slot, &Process::slot);
  if (found == alive_.end()) return;
  const Process* const one = *found;
  for (;;) {
    const Time looks_up = one->helper_until();
    if (looks_up <= scheduler_.now() || looks_up > scheduler_.now() + kLongPause) return;
    if (looks_up - one->last_traffic() >= kLooksUpFor || draw(40) == 0) {
      // What comes of it takes a few microseconds to get there.
      return scheduler_.sleep_until(looks_up + static_cast<Duration>(draw(3 * kMicrosecond)) -
                                    2 * kMicrosecond);
    }
    constexpr Duration kUntilItSleeps = 50 * kMicrosecond;
    scheduler_.sleep_until(looks_up + kUntilItSleeps);
  }
}

uint32_t World::wait_for(Process& process, device::CompletionQueue& cq,
                         device::CompletionChannel& channel, Way way) {
  if (const uint32_t got = process.poll(cq); got != 0) return got;
  switch (way) {
    case Way::kPoll:
      ++tally_.polled;
      // Off its core for a moment, now and then for longer than its lease.
      pause(draw(64) == 0 ? 2 * kMillisecond : 20 * kMicrosecond);
      return 0;
    case Way::kEvents:
      ++tally_.slept;
      if (draw(2) == 0) pause(4 * kMicrosecond);
      process.arm(cq);
      // Most look once more; a device that is told how far they polled needs it not.
      if (draw(2) == 0) {
        if (const uint32_t got = process.poll(cq); got != 0) return got;
      }
      if (draw(4) == 0) {
        process.wait_for_descriptor(channel);
      } else {
        process.wait(channel);
      }
      return 0;
    case Way::kMemory: {
      ++tally_.spun;
      const uint64_t before = process.in_memory();
      // Less and less often, or it would take too many steps.
      for (int i = 1; i < 100 && process.in_memory() == before; ++i) pause(i * 20 * kMicrosecond);
      return 0;
    }
  }
  return 0;
}

void World::sender(Process& process) {
  for (uint32_t round = 0; round < kRounds && !process.leaving; ++round) {
    const std::vector<uint8_t> slots = host_.alive();
    // One of them is liked best.
    const uint8_t peer = draw(2) == 0 ? slots.front() : slots[draw(slots.size())];
    switch (draw(3)) {
      case 0:  pause(50 * kMicrosecond); break;
      case 1:  pause(kLongPause); break;
      default: pause_with_helper(peer); break;
    }
    const auto count =
        static_cast<uint32_t>(1 + draw(draw(4) == 0 ? uint64_t{kMostMessages} : uint64_t{4}));
    const uint32_t bytes = draw(2) == 0 ? 4096 : 8;
    const Way way = draw(4) == 0 || !process.uses_events ? Way::kPoll : Way::kEvents;
    const Time posted = scheduler_.now();
    if (process.post(peer, count, bytes)) {
      tally_.messages += count;
      // Now and then it has enough before all is done.
      const uint64_t wanted = draw(8) == 0 ? draw(count) : count;
      for (uint32_t done = 0; done < wanted;) {
        done += wait_for(process, process.sent(), process.sent_channel(), way);
      }
      if (wanted < count) {
        ++tally_.queue_pairs;
        process.replace_queue_pair(peer);
      }
      const Duration took = scheduler_.now() - std::max(posted, disturbed_);
      if (took > kBound + count * kBoundOfEach) {
        violation("messages took " + std::to_string(took / kMicrosecond) + " us");
      }
    }
  }
  process.done_sending = true;
  --senders_;
}

void World::destroyer(Process& process) {
  for (uint32_t round = 0; round < kQueues && !process.leaving; ++round) {
    pause(draw(2) == 0 ? 200 * kMicrosecond : kLongPause);
    device::CompletionQueue& cq = process.make_spare();
    for (uint64_t looks = draw(6); looks != 0; --looks) {
      (void)process.poll(cq);
      // The receiver has its event, as far as this one has any.
      if (draw(2) == 0) process.arm(cq);
      pause(draw(4) == 0 ? kLongPause : 50 * kMicrosecond);
    }
    ++tally_.queues;
    process.destroy_spare();
  }
}

void World::receiver(Process& process) {
  for (;;) {
    Way way = draw(2) == 0 ? Way::kEvents : static_cast<Way>(draw(3));
    if (way == Way::kEvents && !process.uses_events) way = Way::kMemory;
    const uint64_t turns = 1 + draw(20);
    for (uint64_t i = 0; i < turns; ++i) {
      (void)wait_for(process, process.received(), process.received_channel(), way);
    }
    // One that polls for ever keeps the host from its rest.
    if (process.leaving || (senders_ == 0 && faults_done_)) break;
    if (draw(8) == 0) pause(kLongPause);
  }
  while (!process.leaving) {
    (void)wait_for(process, process.received(), process.received_channel(), Way::kEvents);
  }
}

}  // namespace verbena::progress_sim
