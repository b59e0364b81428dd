// SPDX-License-Identifier: Apache-2.0
// verbena_progress_sim.
#include "progress_sim/seeds.h"
#include "progress_sim/world.h"

namespace verbena::progress_sim {
static void print(const Tally& tally) {
  print_line("steps", tally.steps);
  print_line("messages", tally.messages);
  print_line("looks of pollers", tally.polled);
  print_line("sleeps on channels", tally.slept);
  print_line("waits on memory", tally.spun);
  print_line("wake-ups of helpers", tally.wakeups);
  print_line("stops", tally.stops);
  print_line("kills", tally.kills);
  print_line("joins", tally.joins);
  print_line("orderly ends", tally.leaves);
  print_line("forks", tally.forks);
  print_line("queue pairs destroyed", tally.queue_pairs);
  print_line("completion queues destroyed", tally.queues);
}

[[nodiscard]] static bool reached_all(const Tally& tally) {
  return tally.polled != 0 && tally.slept != 0 && tally.spun != 0 && tally.stops != 0 &&
         tally.kills != 0 && tally.joins != 0 && tally.leaves != 0 && tally.forks != 0 &&
         tally.queue_pairs != 0 && tally.queues != 0;
}

}  // namespace verbena::progress_sim

int main(int argc, char** argv) {
  using namespace verbena::progress_sim;
  return run_seeds<World, Tally>(argc, argv);
}
