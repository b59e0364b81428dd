// SPDX-License-Identifier: Apache-2.0
// verbena_progress_sim: runs seeds, and says what was violated and how to repeat it.
#include <array>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include <unistd.h>

#include "progress_sim/world.h"

namespace verbena::progress_sim {
namespace {

struct Options {
  uint64_t seeds = 200;
  uint64_t first = 1;
};

// Each so-manieth seed runs twice, and must do the same both times.
constexpr uint64_t kRepeatEvery = 16;

// What to say when a broken invariant ends the process.
std::array<char, 80> last_words{};

void on_abort(int number) {
  std::signal(SIGABRT, SIG_DFL);
  const ssize_t written = ::write(STDERR_FILENO, last_words.data(), std::strlen(last_words.data()));
  (void)written;
  if (number == SIGSEGV) std::abort();  // what was destroyed was touched
  std::raise(number);
}

[[nodiscard]] bool run_one(uint64_t seed, Tally& tally) {
  const auto number = static_cast<unsigned long long>(seed);
  std::snprintf(last_words.data(), last_words.size(), "Seed %llu ended the process.\n", number);
  World world(seed, tally);
  const auto violations = world.run();
  for (const std::string& violation : violations) {
    std::printf("Seed %llu, %s\n", number, violation.c_str());
  }
  return violations.empty();
}

// One seed is one history.
[[nodiscard]] bool is_repeatable(uint64_t seed) {
  std::array<Tally, 2> tallies;
  for (Tally& tally : tallies) (void)run_one(seed, tally);
  if (tallies[0] == tallies[1]) return true;
  std::printf("Seed %llu: two runs differ\n", static_cast<unsigned long long>(seed));
  return false;
}

void print(const Tally& tally) {
  const auto line = [](const char* name, uint64_t value) {
    std::printf("  %-28s %llu\n", name, static_cast<unsigned long long>(value));
  };
  line("steps", tally.steps);
  line("messages", tally.messages);
  line("looks of pollers", tally.polled);
  line("sleeps on channels", tally.slept);
  line("waits on memory", tally.spun);
  line("wake-ups of helpers", tally.wakeups);
  line("stops", tally.stops);
  line("kills", tally.kills);
  line("joins", tally.joins);
  line("orderly ends", tally.leaves);
  line("forks", tally.forks);
  line("queue pairs destroyed", tally.queue_pairs);
  line("completion queues destroyed", tally.queues);
}

// Runs that never reach these show nothing.
[[nodiscard]] bool reached_all(const Tally& tally) {
  return tally.polled != 0 && tally.slept != 0 && tally.spun != 0 && tally.stops != 0 &&
         tally.kills != 0 && tally.joins != 0 && tally.leaves != 0 && tally.forks != 0 &&
         tally.queue_pairs != 0 && tally.queues != 0;
}

[[nodiscard]] bool run_all(const Options& options) {
  Tally tally;
  bool good = true;
  for (uint64_t i = 0; i < options.seeds && good; ++i) {
    const uint64_t seed = options.first + i;
    good = run_one(seed, tally);
    if (good && i % kRepeatEvery == 0) good = is_repeatable(seed);
  }
  print(tally);
  if (good && options.seeds >= 100 && !reached_all(tally)) {
    std::printf("The runs did not reach everything.\n");
    return false;
  }
  return good;
}

[[nodiscard]] bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string_view argument = argv[i];
    const uint64_t number = std::strtoull(argv[i + 1], nullptr, 10);
    if (argument == "--seeds") {
      options.seeds = number;
    } else if (argument == "--first") {
      options.first = number;
    } else {
      return false;
    }
  }
  return argc % 2 == 1 && options.seeds != 0;
}

}  // namespace
}  // namespace verbena::progress_sim

int main(int argc, char** argv) {
  using namespace verbena::progress_sim;
  Options options;
  if (!parse(argc, argv, options)) {
    std::fprintf(stderr, "verbena_progress_sim [--seeds N] [--first S]\n");
    return 2;
  }
  std::signal(SIGABRT, on_abort);
  std::signal(SIGSEGV, on_abort);
  return run_all(options) ? 0 : 1;
}
