// SPDX-License-Identifier: Apache-2.0
// verbena_cm_storm [--wired] [--seeds N] [--first S] [--trace]: runs seeds, says what was violated
// and how to repeat it, and checks that a long run reached every counter of the connection manager.
// --wired: over the transport (wired_storm.h); the first seed goes twice, to the same hash.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>

#include "cm_storm/storm.h"
#include "cm_storm/wired_storm.h"

namespace verbena::cm_storm {
namespace {

constexpr uint64_t kLongRun = 40;

struct Options {
  uint64_t seeds = 100;
  uint64_t first = 1;
  bool trace = false;
  bool wired = false;
};

bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const bool has_value = i + 1 < argc;
    if (std::strcmp(argv[i], "--trace") == 0) {
      options.trace = true;
    } else if (std::strcmp(argv[i], "--wired") == 0) {
      options.wired = true;
    } else if (std::strcmp(argv[i], "--seeds") == 0 && has_value) {
      options.seeds = std::strtoull(argv[++i], nullptr, 10);
    } else if (std::strcmp(argv[i], "--first") == 0 && has_value) {
      options.first = std::strtoull(argv[++i], nullptr, 10);
    } else {
      std::fprintf(stderr, "verbena_cm_storm [--wired] [--seeds N] [--first S] [--trace]\n");
      return false;
    }
  }
  return true;
}

int run(const Options& options) {
  Outcome all;
  size_t failed = 0;
  for (uint64_t i = 0; i < options.seeds; ++i) {
    const uint64_t seed = options.first + i;
    const Outcome outcome = run_storm(seed, options.trace);
    all.connects += outcome.connects;
    all.connected += outcome.connected;
    all.lasting += outcome.lasting;
    all.messages += outcome.messages;
    for (size_t c = 0; c < cm::kCounters; ++c) {
      const auto counter = static_cast<cm::Counter>(c);
      all.counters.add(counter, outcome.counters[counter]);
    }
    if (outcome.complaints.empty()) continue;
    ++failed;
    for (const std::string& what : outcome.complaints) {
      std::printf("FAIL seed %llu %s\n", static_cast<unsigned long long>(seed), what.c_str());
    }
    std::printf("  again: verbena_cm_storm --seeds 1 --first %llu --trace\n",
                static_cast<unsigned long long>(seed));
  }
  for (size_t c = 0; c < cm::kCounters && options.seeds >= kLongRun; ++c) {
    const auto counter = static_cast<cm::Counter>(c);
    if (all.counters[counter] != 0) continue;
    std::printf("FAIL never reached: %s\n", cm::kCounterText[c]);
    ++failed;
  }
  std::printf(
      "%llu seeds, %zu connects, %zu ends connected, %zu to the last, %zu messages; %zu failed\n",
      static_cast<unsigned long long>(options.seeds), all.connects, all.connected, all.lasting,
      all.messages, failed);
  return failed == 0 && all.connected != 0 ? 0 : 1;
}

int run_wired(const Options& options) {
  WiredOutcome all;
  size_t failed = 0;
  for (uint64_t i = 0; i < options.seeds; ++i) {
    const uint64_t seed = options.first + i;
    WiredOutcome outcome = run_wired_storm(seed, options.trace);
    if (i == 0 && outcome.violation.empty() && run_wired_storm(seed, false).hash != outcome.hash) {
      outcome.violation = "the same seed had another history";
    }
    all.connects += outcome.connects;
    all.packets += outcome.packets;
    all.faults += outcome.faults;
    for (size_t s = 0; s < Sights::kCount; ++s) all.sights.seen[s] += outcome.sights.seen[s];
    if (outcome.violation.empty()) continue;
    ++failed;
    std::printf(
        "FAIL seed %llu: %s\n  again: verbena_cm_storm --wired --seeds 1 --first %llu --trace\n",
        static_cast<unsigned long long>(seed), outcome.violation.c_str(),
        static_cast<unsigned long long>(seed));
  }
  std::printf("%llu seeds, %llu connects, %llu packets, %llu faults; %zu failed\n",
              static_cast<unsigned long long>(options.seeds),
              static_cast<unsigned long long>(all.connects),
              static_cast<unsigned long long>(all.packets),
              static_cast<unsigned long long>(all.faults), failed);
  for (size_t s = 0; s < Sights::kCount; ++s) {
    std::printf("%12llu %s\n", static_cast<unsigned long long>(all.sights.seen[s]),
                Sights::kText[s]);
    if (all.sights.seen[s] != 0 || options.seeds < kLongRun) continue;
    std::printf("FAIL never seen: %s\n", Sights::kText[s]);
    ++failed;
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace verbena::cm_storm

int main(int argc, char** argv) {
  try {
    using namespace verbena::cm_storm;
    Options options;
    if (!parse(argc, argv, options)) return 2;
    return options.wired ? run_wired(options) : run(options);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "verbena_cm_storm: %s\n", error.what());
    return 2;
  }
}
