// SPDX-License-Identifier: Apache-2.0
// verbena_sim: runs seeds, says what was violated and how to repeat it, and checks that a long run
// reached every counter of the transport.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>

#include "sim/congestion_table.h"
#include "sim/key_runs.h"
#include "sim/loss_table.h"
#include "sim/seed_run.h"

// There in builds with AddressSanitizer alone.
// NOLINTNEXTLINE(bugprone-reserved-identifier,readability-identifier-naming): the sanitizer's name
extern "C" [[gnu::weak]] void __sanitizer_set_death_callback(void (*callback)());

namespace verbena::sim {
namespace {

// What to say when a seed ends the process: a broken invariant, or what a sanitizer finds.
thread_local std::array<char, 128> last_words{};

void prepare_last_words(uint64_t seed) {
  const auto number = static_cast<unsigned long long>(seed);
  std::snprintf(last_words.data(), last_words.size(),
                "Seed %llu ended the process. Repeat it with\n"
                "  ./dev sim --seeds 1 --first %llu --trace\n",
                number, number);
}

void say_last_words() {
  const ssize_t written = ::write(STDERR_FILENO, last_words.data(), std::strlen(last_words.data()));
  (void)written;
}

void on_fatal_signal(int number) {
  std::signal(number, SIG_DFL);
  say_last_words();
  std::raise(number);
}

void listen_for_the_end() {
  std::signal(SIGABRT, on_fatal_signal);
  if (__sanitizer_set_death_callback != nullptr) {
    __sanitizer_set_death_callback(say_last_words);
    return;
  }
  for (const int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) std::signal(number, on_fatal_signal);
}

struct Options {
  uint64_t seeds = 2000;
  uint64_t first = 1;
  unsigned jobs = 0;  // 0: as many as there are processors
  bool trace = false;
  bool verbose = false;
  uint64_t keys = 0;
  bool loss_table = false;
  bool loss_floors = false;
  bool congestion_table = false;
  std::string congestion_rows;
  uint64_t congestion = 0;
  std::string pcap;
};

// A run this long must reach every counter.
constexpr uint64_t kCoverageSeeds = 2000;
// Each so-manieth seed runs twice, and must do the same both times.
constexpr uint64_t kRepeatEvery = 16;

constexpr const char* kHelp = R"(verbena_sim [OPTIONS]

Runs the InfiniBand transport in simulated worlds. One seed decides everything about a world: hosts,
connections, work, faults and attacks. Each world has a phase of faults (loss, duplication, reordering,
delay, corruption, partitions, an attacker) and is then healed; every request must complete exactly once
and in order, memory must equal a model's, and nothing may be left over.

  --seeds N      how many seeds to run (2000; from 2000 on every counter of the transport must be
                 reached)
  --first S      the first seed (1)
  --jobs J       worlds at a time (one per processor)
  --trace        tell what happens, packet by packet; for one seed
  --verbose      one line per seed, and all counters at the end
  --pcap FILE    write the frames of one seed to FILE, for Wireshark; a corrupted frame comes twice,
                 as it was sent and as it arrived
  --keys N       instead: N seeds of messages through memory keys with layouts and signatures
  --loss-table   instead: what goodput remains at 0.1%, 1% and 5% loss, as a table in markdown
  --loss-floors  instead: whether it is as much as it was, for a few cases
  --congestion-table
                 instead: shares of a link with a queue, beside TCP, as a table in markdown, with
                 the first seed
  --congestion N instead: whether the shares are as wanted, for N seeds
  --rows TEXT    of that table, or of those shares, only the rows with TEXT in their labels,
                 such as "READ, 1000 Mb/s, 10.0 ms, queue 1.00 BDP, 8 QPs"
  --help         this

A failure prints the seed, what was violated, and the command that repeats it. Exit status: 0 when all is
well, 1 after a violation, 2 for a wrong option.
)";

[[nodiscard]] bool parse(int argc, char** argv, Options& options) {
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const auto number = [&](uint64_t& to) {
      if (i + 1 >= argc) return false;
      char* end = nullptr;
      to = std::strtoull(argv[++i], &end, 0);
      return end != argv[i] && *end == 0;
    };
    uint64_t value = 0;
    if (argument == "--seeds" && number(value))
      options.seeds = value;
    else if (argument == "--first" && number(value))
      options.first = value;
    else if (argument == "--jobs" && number(value))
      options.jobs = static_cast<unsigned>(value);
    else if (argument == "--keys" && number(value))
      options.keys = value;
    else if (argument == "--congestion" && number(value))
      options.congestion = value;
    else if (argument == "--congestion-table")
      options.congestion_table = true;
    else if (argument == "--rows" && i + 1 < argc)
      options.congestion_rows = argv[++i];
    else if (argument == "--trace")
      options.trace = true;
    else if (argument == "--verbose")
      options.verbose = true;
    else if (argument == "--loss-table")
      options.loss_table = true;
    else if (argument == "--loss-floors")
      options.loss_floors = true;
    else if (argument == "--pcap" && i + 1 < argc)
      options.pcap = argv[++i];
    else if (argument == "--help" || argument == "-h") {
      std::fputs(kHelp, stdout);
      std::exit(0);
    } else {
      std::fprintf(stderr, "verbena_sim: '%s' is not understood, or wants a number; see --help.\n",
                   argument.c_str());
      return false;
    }
  }
  if ((options.trace || !options.pcap.empty()) && options.seeds != 1) {
    std::fprintf(stderr,
                 "verbena_sim: --trace and --pcap are for one seed: add --seeds 1 --first S.\n");
    return false;
  }
  return true;
}

struct Totals {
  uint64_t seeds = 0;
  uint64_t operations = 0;
  uint64_t faults = 0;
  uint64_t packets = 0;
  uint64_t attacks = 0;
  uint64_t repeated = 0;
  transport::Counters counters;
  Scenes scenes;

  void add(const SeedResult& result) {
    ++seeds;
    operations += result.operations;
    faults += result.faults;
    packets += result.packets;
    attacks += result.attacks;
    for (size_t i = 0; i < transport::kCounters; ++i) {
      counters.add(static_cast<transport::Counter>(i), result.counters.at(i));
    }
    for (size_t i = 0; i < kScenes; ++i) scenes.add(static_cast<Scene>(i), result.scenes.at(i));
  }
};

void print_counters(const Totals& totals) {
  const auto print = [](uint64_t value, const char* text) {
    std::printf("%14llu  %s\n", static_cast<unsigned long long>(value), text);
  };
  for (size_t i = 0; i < transport::kCounters; ++i)
    print(totals.counters.at(i), transport::kCounterText[i]);
  for (size_t i = 0; i < kScenes; ++i) print(totals.scenes.at(i), kSceneText[i]);
}

// True when every counter was reached, and every scene played.
[[nodiscard]] bool check_coverage(const Totals& totals) {
  std::vector<const char*> missing;
  for (size_t i = 0; i < transport::kCounters; ++i) {
    if (totals.counters.at(i) == 0) missing.push_back(transport::kCounterText[i]);
  }
  for (size_t i = 0; i < kScenes; ++i) {
    if (totals.scenes.at(i) == 0) missing.push_back(kSceneText[i]);
  }
  if (missing.empty()) return true;
  std::printf("Never reached in %llu seeds:\n", static_cast<unsigned long long>(totals.seeds));
  for (const char* text : missing) std::printf("  %s\n", text);
  return false;
}

class Runner {
 public:
  explicit Runner(const Options& options) : options_(options), next_(options.first) {}

  int run() {
    const auto begin = std::chrono::steady_clock::now();
    unsigned jobs =
        options_.jobs != 0 ? options_.jobs : std::max(1u, std::thread::hardware_concurrency());
    jobs = static_cast<unsigned>(std::min<uint64_t>(jobs, options_.seeds));
    std::vector<std::thread> threads;
    threads.reserve(jobs);
    for (unsigned i = 0; i < jobs; ++i) threads.emplace_back([this] { work(); });
    for (std::thread& thread : threads) thread.join();
    const double seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    if (options_.verbose) print_counters(totals_);
    std::printf(
        "%llu seeds from %llu: %llu operations, %llu packets, %llu faults, %llu attacks; %llu "
        "seeds run "
        "twice alike; %.1f s\n",
        static_cast<unsigned long long>(totals_.seeds),
        static_cast<unsigned long long>(options_.first),
        static_cast<unsigned long long>(totals_.operations),
        static_cast<unsigned long long>(totals_.packets),
        static_cast<unsigned long long>(totals_.faults),
        static_cast<unsigned long long>(totals_.attacks),
        static_cast<unsigned long long>(totals_.repeated), seconds);
    if (failed_) return 1;
    if (totals_.seeds >= kCoverageSeeds && !check_coverage(totals_)) return 1;
    std::printf("All good.\n");
    return 0;
  }

 private:
  void work() {
    for (;;) {
      const uint64_t seed = next_++;
      if (seed >= options_.first + options_.seeds || failed_) return;
      one(seed);
    }
  }

  void one(uint64_t seed) {
    prepare_last_words(seed);
    std::vector<uint8_t> pcap;
    SeedResult result = run_seed(seed, options_.trace, options_.pcap.empty() ? nullptr : &pcap);
    const bool repeat = result.good && seed % kRepeatEvery == 0 && !options_.trace;
    if (repeat) {
      const SeedResult again = run_seed(seed, false, nullptr);
      if (again.hash != result.hash || again.events != result.events) {
        result.good = false;
        result.violated = "the same seed gave two different traces";
      }
    }
    const std::lock_guard lock(mutex_);
    totals_.add(result);
    if (repeat) ++totals_.repeated;
    if (!options_.pcap.empty()) write_pcap(pcap);
    if (options_.verbose) {
      std::printf("seed %llu: %s, %llu operations, %llu packets, %llu faults, trace %016llx\n",
                  static_cast<unsigned long long>(seed), result.good ? "good" : "VIOLATED",
                  static_cast<unsigned long long>(result.operations),
                  static_cast<unsigned long long>(result.packets),
                  static_cast<unsigned long long>(result.faults),
                  static_cast<unsigned long long>(result.hash));
    }
    if (result.good) return;
    failed_ = true;
    std::printf("Seed %llu: %s\nRepeat it with\n  ./dev sim --seeds 1 --first %llu --trace\n",
                static_cast<unsigned long long>(seed), result.violated.c_str(),
                static_cast<unsigned long long>(seed));
  }

  void write_pcap(const std::vector<uint8_t>& bytes) const {
    std::FILE* const file = std::fopen(options_.pcap.c_str(), "wb");
    const bool written =
        file != nullptr && std::fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size();
    if (file == nullptr || std::fclose(file) != 0 || !written) {
      std::fprintf(stderr, "verbena_sim: could not write %s: %s\n", options_.pcap.c_str(),
                   std::strerror(errno));
    } else {
      std::printf("wrote %s\n", options_.pcap.c_str());
    }
  }

  const Options& options_;
  std::atomic<uint64_t> next_;
  std::atomic<bool> failed_ = false;
  std::mutex mutex_;
  Totals totals_;
};

}  // namespace
}  // namespace verbena::sim

int main(int argc, char** argv) {
  verbena::sim::Options options;
  if (!verbena::sim::parse(argc, argv, options)) return 2;
  if (options.keys != 0) return verbena::sim::check_keys(options.first, options.keys) ? 0 : 1;
  if (options.congestion != 0) {
    const bool good =
        verbena::sim::check_congestion(options.congestion_rows, options.first, options.congestion);
    return good ? 0 : 1;
  }
  if (options.congestion_table) {
    verbena::sim::print_congestion_table(options.congestion_rows, options.first);
    return 0;
  }
  if (options.loss_floors) return verbena::sim::check_loss_floors() ? 0 : 1;
  if (options.loss_table) {
    verbena::sim::print_loss_table();
    return 0;
  }
  verbena::sim::listen_for_the_end();
  return verbena::sim::Runner(options).run();
}
