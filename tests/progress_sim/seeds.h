// SPDX-License-Identifier: Apache-2.0
// The main program of a simulator: runs seeds, and says what was violated and how to repeat it.
#pragma once

#include <array>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include <unistd.h>

namespace verbena::progress_sim {

struct Options {
  uint64_t seeds = 200;
  uint64_t first = 1;
};

// Each so-manieth seed runs twice, and must do the same both times.
inline constexpr uint64_t kRepeatEvery = 16;

// What to say when a broken invariant ends the process.
inline std::array<char, 80> last_words{};

inline void on_abort(int number) {
  std::signal(SIGABRT, SIG_DFL);
  const ssize_t written = ::write(STDERR_FILENO, last_words.data(), std::strlen(last_words.data()));
  (void)written;
  if (number == SIGSEGV) std::abort();  // what was destroyed was touched
  std::raise(number);
}

template <typename World, typename Tally>
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
template <typename World, typename Tally>
[[nodiscard]] bool is_repeatable(uint64_t seed) {
  std::array<Tally, 2> tallies;
  for (Tally& tally : tallies) (void)run_one<World>(seed, tally);
  if (tallies[0] == tallies[1]) return true;
  std::printf("Seed %llu: two runs differ\n", static_cast<unsigned long long>(seed));
  return false;
}

// Tally: with print() and reached_all(), of which runs that never reach these show nothing.
template <typename World, typename Tally>
[[nodiscard]] bool run_all(const Options& options) {
  Tally tally;
  bool good = true;
  for (uint64_t i = 0; i < options.seeds && good; ++i) {
    const uint64_t seed = options.first + i;
    good = run_one<World>(seed, tally);
    if (good && i % kRepeatEvery == 0) good = is_repeatable<World, Tally>(seed);
  }
  print(tally);
  if (good && options.seeds >= 100 && !reached_all(tally)) {
    std::printf("The runs did not reach everything.\n");
    return false;
  }
  return good;
}

[[nodiscard]] inline bool parse(int argc, char** argv, Options& options) {
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

template <typename World, typename Tally>
[[nodiscard]] int run_seeds(int argc, char** argv) {
  Options options;
  if (!parse(argc, argv, options)) {
    std::fprintf(stderr, "%s [--seeds N] [--first S]\n", argv[0]);
    return 2;
  }
  std::signal(SIGABRT, on_abort);
  std::signal(SIGSEGV, on_abort);
  return run_all<World, Tally>(options) ? 0 : 1;
}

inline void print_line(const char* name, uint64_t value) {
  std::printf("  %-28s %llu\n", name, static_cast<unsigned long long>(value));
}

}  // namespace verbena::progress_sim
