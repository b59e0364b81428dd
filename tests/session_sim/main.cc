// SPDX-License-Identifier: Apache-2.0
// verbena_session_sim: runs seeds, or one fault at every step of a few seeds, and says what was
// violated and how to repeat it.
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <unistd.h>

#include "session_sim/world.h"

namespace verbena::session_sim {
namespace {

struct Options {
  uint64_t seeds = 500;
  uint64_t first = 1;
  bool every_step = false;
  uint64_t stride = 1;  // of the steps
};

// Each so-manieth seed runs twice, and must do the same both times.
constexpr uint64_t kRepeatEvery = 16;

// What to say when a broken invariant ends the process.
std::array<char, 160> last_words{};

void on_abort(int number) {
  std::signal(number, SIG_DFL);
  const ssize_t written = ::write(STDERR_FILENO, last_words.data(), std::strlen(last_words.data()));
  (void)written;
  std::raise(number);
}

[[nodiscard]] const char* name_of(Fault fault) {
  switch (fault) {
    case Fault::kNone:        return "random faults";
    case Fault::kCut:         return "a cut";
    case Fault::kClientDeath: return "a client's death";
    case Fault::kServerDeath: return "the server's death";
  }
  return "unknown";
}

[[nodiscard]] bool run_one(const Scenario& scenario, Tally& tally) {
  std::snprintf(last_words.data(), last_words.size(),
                "Seed %llu, %s at event %llu ended the process.\n",
                static_cast<unsigned long long>(scenario.seed), name_of(scenario.fault),
                static_cast<unsigned long long>(scenario.fault_at));
  World world(scenario, tally);
  const auto violations = world.run();
  for (const std::string& violation : violations) {
    std::printf("Seed %llu, %s at event %llu: %s\n", static_cast<unsigned long long>(scenario.seed),
                name_of(scenario.fault), static_cast<unsigned long long>(scenario.fault_at),
                violation.c_str());
  }
  return violations.empty();
}

[[nodiscard]] bool run_every_step(uint64_t seed, uint64_t stride, Tally& tally) {
  Tally without;
  if (!run_one({.seed = seed, .random_faults = false}, without)) return false;
  for (const Fault fault : {Fault::kCut, Fault::kClientDeath, Fault::kServerDeath}) {
    for (uint64_t at = 0; at < without.events; at += stride) {
      if (!run_one({.seed = seed, .random_faults = false, .fault = fault, .fault_at = at}, tally)) {
        return false;
      }
    }
  }
  return true;
}

void print(const Tally& tally) {
  const auto line = [](const char* name, uint64_t value) {
    std::printf("  %-28s %llu\n", name, static_cast<unsigned long long>(value));
  };
  line("events", tally.events);
  line("operations", tally.operations);
  line("acknowledged", tally.done);
  line("outcome unknown", tally.unknown);
  line("timed out, cancelled", tally.timed_out);
  line("sessions resumed", tally.resumed);
  line("answered from memory", tally.from_memory);
  line("repeatable writes repeated", tally.repeated);
  line("fences", tally.fences);
  line("RDMA accesses", tally.remote_accesses);
  line("cuts", tally.cuts);
  line("deaths", tally.deaths);
}

// Runs that never reach these show nothing.
[[nodiscard]] bool reached_all(const Tally& tally) {
  return tally.done != 0 && tally.unknown != 0 && tally.timed_out != 0 && tally.resumed != 0 &&
         tally.from_memory != 0 && tally.repeated != 0 && tally.fences != 0 &&
         tally.remote_accesses != 0;
}

// One seed is one history.
[[nodiscard]] bool is_repeatable(uint64_t seed) {
  std::array<Tally, 2> tallies;
  for (Tally& tally : tallies) (void)run_one({.seed = seed}, tally);
  if (tallies[0] == tallies[1]) return true;
  std::printf("Seed %llu: two runs differ\n", static_cast<unsigned long long>(seed));
  return false;
}

[[nodiscard]] bool run_all(const Options& options) {
  Tally tally;
  bool good = true;
  for (uint64_t i = 0; i < options.seeds && good; ++i) {
    const uint64_t seed = options.first + i;
    good = options.every_step ? run_every_step(seed, options.stride, tally)
                              : run_one({.seed = seed}, tally);
    if (good && i % kRepeatEvery == 0) good = is_repeatable(seed);
  }
  print(tally);
  if (good && options.seeds >= 300 && !reached_all(tally)) {
    std::printf("The runs did not reach everything.\n");
    return false;
  }
  return good;
}

[[nodiscard]] bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const auto number = [&] {
      return i + 1 < argc ? std::strtoull(argv[++i], nullptr, 10) : uint64_t{0};
    };
    if (argument == "--seeds") {
      options.seeds = number();
    } else if (argument == "--first") {
      options.first = number();
    } else if (argument == "--every-step") {
      options.every_step = true;
    } else if (argument == "--stride") {
      options.stride = number();
    } else {
      return false;
    }
  }
  return options.seeds != 0 && options.stride != 0;
}

}  // namespace
}  // namespace verbena::session_sim

int main(int argc, char** argv) {
  using namespace verbena::session_sim;
  Options options;
  if (!parse(argc, argv, options)) {
    std::fprintf(stderr,
                 "verbena_session_sim [--seeds N] [--first S] [--every-step [--stride N]]\n"
                 "Without --every-step: faults at random, one world for each seed. With it: one\n"
                 "fault of each kind at every event of the world of each seed.\n");
    return 2;
  }
  std::signal(SIGABRT, on_abort);
  return run_all(options) ? 0 : 1;
}
