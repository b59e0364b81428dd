// SPDX-License-Identifier: Apache-2.0
// verbena_store_kill: a process that writes into a store in a folder, and is killed.
#include <cstdio>

#include "killing.h"
#include "seeds.h"

namespace {
constexpr const char* kHelp = R"(verbena_store_kill [OPTIONS]

Kills a process with SIGKILL while it writes into a store, again and again, and looks each time whether
the store has everything that was flushed, in order, and nothing that is half.

  --rounds N     kills of each kind of store (20)
  --seed S       decides what is written and when it is killed (1)
  --trace        tell each round
  --help         this
)";
}  // namespace

int main(int argc, char** argv) {
  using namespace verbena::store::trial;
  Arguments arguments{
      .numbers = {{"rounds", 20}, {"seed", 1}}, .flags = {{"trace", false}}, .words = {}};
  if (!parse(argc, argv, kHelp, arguments)) return 2;
  const uint64_t seed = arguments.numbers["seed"];
  bool good = true;
  for (const auto kind : {verbena::store::Kind::kMapped, verbena::store::Kind::kStaged}) {
    const KillResult result =
        run_kills(seed, kind, arguments.numbers["rounds"], arguments.flags["trace"]);
    const char* const name = kind == verbena::store::Kind::kMapped ? "mapped" : "staged";
    std::printf(
        "%s: %llu kills, %llu of them while it was opened; %llu operations, %llu of them "
        "after the last flush kept, %llu lost\n",
        name, static_cast<unsigned long long>(result.kills),
        static_cast<unsigned long long>(result.while_opening),
        static_cast<unsigned long long>(result.operations),
        static_cast<unsigned long long>(result.kept), static_cast<unsigned long long>(result.lost));
    if (result.violation.empty()) continue;
    good = false;
    print_failure(seed, std::string(name) + ": " + result.violation, result.trace,
                  "verbena_store_kill --seed " + std::to_string(seed) + " --rounds " +
                      std::to_string(arguments.numbers["rounds"]) + " --trace");
  }
  return good ? 0 : 1;
}
