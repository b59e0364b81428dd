// SPDX-License-Identifier: Apache-2.0
// verbena_store_crash_threads: power cuts of a store with several threads, checkpoints and
// compactions at once.
#include <cstdio>
#include <string>

#include "crash_threads_run.h"
#include "seeds.h"

namespace verbena::store::trial {
namespace {

constexpr const char* kHelp = R"(verbena_store_crash_threads [OPTIONS]

Threads change a store while checkpoints, compactions and scrubs go on beside them, on a medium that is small,
full or failing. Then the store is opened from what power cuts may have left. A seed gives what each thread does,
but not how threads meet: a failure may need several runs to be seen again.

  --seeds N        how many histories (10)
  --first S        the first (1)
  --threads T      that change objects (3)
  --operations K   of each (60)
  --moments M      at which the power fails (60)
  --help           this
)";

int run(const Arguments& arguments) {
  CrashThreadsOptions options;
  options.threads = static_cast<uint32_t>(arguments.numbers.at("threads"));
  options.operations = static_cast<uint32_t>(arguments.numbers.at("operations"));
  options.moments = static_cast<uint32_t>(arguments.numbers.at("moments"));
  CrashThreadsResult all;
  int failed = 0;
  const uint64_t first = arguments.numbers.at("first");
  for (uint64_t seed = first; seed < first + arguments.numbers.at("seeds"); ++seed) {
    const std::string command =
        "verbena_store_crash_threads --seeds 1 --first " + std::to_string(seed) + " --threads " +
        std::to_string(options.threads) + " --operations " + std::to_string(options.operations);
    announce_seed(seed, command);
    const CrashThreadsResult result = run_crash_threads(seed, options);
    all.operations += result.operations;
    all.checkpoints += result.checkpoints;
    all.compactions += result.compactions;
    all.images += result.images;
    if (result.violation.empty()) continue;
    ++failed;
    print_failure(seed, result.violation, result.trace, command);
  }
  std::printf(
      "%llu operations beside %llu checkpoints and %llu compactions, %llu images; %d seeds "
      "failed\n",
      static_cast<unsigned long long>(all.operations),
      static_cast<unsigned long long>(all.checkpoints),
      static_cast<unsigned long long>(all.compactions), static_cast<unsigned long long>(all.images),
      failed);
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace verbena::store::trial

int main(int argc, char** argv) {
  using namespace verbena::store::trial;
  Arguments arguments{
      .numbers = {{"seeds", 10}, {"first", 1}, {"threads", 3}, {"operations", 60}, {"moments", 60}},
      .flags = {},
      .words = {}};
  return parse(argc, argv, kHelp, arguments) ? run(arguments) : 2;
}
