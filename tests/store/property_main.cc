// SPDX-License-Identifier: Apache-2.0
// verbena_store_property: operations at random against the model, on each memory backend.
#include <cstdio>

#include "base/random.h"
#include "property_run.h"
#include "seeds.h"

namespace verbena::store::trial {
namespace {

constexpr const char* kHelp = R"(verbena_store_property [OPTIONS]

Long random sequences of all operations of a store, beside a naive model of one: contents, sizes, lists
and free space must agree after each step. Each seed runs on each memory backend.

  --seeds N      how many (10)
  --first S      the first (1)
  --steps K      of each (300)
  --place NAME   on this backend alone: malloc, nvdimm, nvdimm-lines, staged, cache, balance, ...
  --trace        tell each step
  --help         this
)";

struct Totals {
  uint64_t steps = 0;
  uint64_t refused_full = 0;
  uint64_t reopened = 0;
  uint64_t held = 0;
  uint64_t failed = 0;
};

void run(uint64_t seed, const std::string& name, const PropertyOptions& options, Totals& totals) {
  // Some are so small that they are often full.
  SeededRandom random(seed);
  const bool small = random.below(3) == 0;
  PlaceShape shape;
  shape.chunks_per_block = 16u << random.below(4);
  shape.blocks = static_cast<uint32_t>((small ? 600 : 6000) / shape.chunks_per_block);
  const std::unique_ptr<Place> place = make_place(name, shape);
  const std::string command = "verbena_store_property --seeds 1 --first " + std::to_string(seed) +
                              " --steps " + std::to_string(options.steps) + " --place " + name +
                              " --trace";
  announce_seed(seed, command);
  const PropertyResult result = run_property(seed, *place, options);
  totals.steps += result.steps;
  totals.refused_full += result.refused_full;
  totals.reopened += result.reopened;
  totals.held += result.held_over_changes;
  if (result.violation.empty()) return;
  ++totals.failed;
  print_failure(seed, "on " + name + ": " + result.violation, result.trace, command);
}

int run_all(const Arguments& arguments) {
  std::vector<std::string> names = place_names();
  if (const std::string& only = arguments.words.at("place"); !only.empty()) names = {only};
  const PropertyOptions options{.steps = static_cast<uint32_t>(arguments.numbers.at("steps")),
                                .trace = arguments.flags.at("trace")};
  Totals totals;
  const uint64_t first = arguments.numbers.at("first");
  for (uint64_t seed = first; seed < first + arguments.numbers.at("seeds"); ++seed) {
    for (const std::string& name : names) {
      if (make_place(name, {}) == nullptr) {
        std::fprintf(stderr, "There is no place '%s'; see --help.\n", name.c_str());
        return 2;
      }
      run(seed, name, options, totals);
    }
  }
  std::printf(
      "%llu steps on %zu backends: %llu refused because it was full, %llu changes beside prepared "
      "reads, %llu times opened again; %llu failed\n",
      static_cast<unsigned long long>(totals.steps), names.size(),
      static_cast<unsigned long long>(totals.refused_full),
      static_cast<unsigned long long>(totals.held),
      static_cast<unsigned long long>(totals.reopened),
      static_cast<unsigned long long>(totals.failed));
  return totals.failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace verbena::store::trial

int main(int argc, char** argv) {
  using namespace verbena::store::trial;
  Arguments arguments{.numbers = {{"seeds", 10}, {"first", 1}, {"steps", 300}},
                      .flags = {{"trace", false}},
                      .words = {{"place", ""}}};
  if (!parse(argc, argv, kHelp, arguments)) return 2;
  return run_all(arguments);
}
