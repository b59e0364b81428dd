// SPDX-License-Identifier: Apache-2.0
// verbena_members_sim.
#include "members_sim/world.h"
#include "progress_sim/seeds.h"

namespace verbena::members_sim {
static void print(const Tally& tally) {
  using progress_sim::print_line;
  print_line("steps", tally.steps);
  print_line("datagrams", tally.letters);
  print_line("lost with the dead", tally.lost);
  print_line("refused for want of room", tally.refusals);
  print_line("forwarded", tally.forwarded);
  print_line("reaped", tally.reaped);
  print_line("stops", tally.stops);
  print_line("kills", tally.kills);
  print_line("joins", tally.joins);
  print_line("leaves", tally.leaves);
  print_line("names with a suffix", tally.suffixes);
  print_line("joins without stops, kills", tally.calm_joins);
  print_line("the longest of them, in us", static_cast<uint64_t>(tally.longest_join) / 1000);
}

[[nodiscard]] static bool reached_all(const Tally& tally) {
  return tally.letters != 0 && tally.lost != 0 && tally.refusals != 0 && tally.reaped != 0 &&
         tally.stops != 0 && tally.kills != 0 && tally.leaves != 0 && tally.suffixes != 0 &&
         tally.calm_joins != 0;
}

}  // namespace verbena::members_sim

int main(int argc, char** argv) {
  using namespace verbena::members_sim;
  return verbena::progress_sim::run_seeds<World, Tally>(argc, argv);
}
