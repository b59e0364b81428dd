// SPDX-License-Identifier: Apache-2.0
// verbena_host_sim.
#include "host_sim/world.h"
#include "progress_sim/seeds.h"

namespace verbena::host_sim {
static void print(const Tally& tally) {
  using progress_sim::print_line;
  print_line("steps", tally.steps);
  print_line("messages", tally.messages);
  print_line("reads", tally.reads);
  print_line("requests to the dead", tally.failed);
  print_line("probes and time-outs", tally.probes);
  print_line("datagrams without room", tally.dropped);
  print_line("datagrams lost", tally.lost);
  print_line("stops", tally.stops);
  print_line("kills", tally.kills);
  print_line("joins", tally.joins);
  print_line("leaves", tally.leaves);
  print_line("messages beside a stop", tally.beside);
  print_line("longest wait beside a stop, us", static_cast<uint64_t>(tally.longest_beside) / 1000);
}

[[nodiscard]] static bool reached_all(const Tally& tally) {
  return tally.messages != 0 && tally.reads != 0 && tally.failed != 0 && tally.lost != 0 &&
         tally.stops != 0 && tally.beside != 0 && tally.kills != 0 && tally.leaves != 0;
}

}  // namespace verbena::host_sim

int main(int argc, char** argv) {
  using namespace verbena::host_sim;
  return verbena::progress_sim::run_seeds<World, Tally>(argc, argv);
}
