// SPDX-License-Identifier: Apache-2.0
// `./dev bench backend`: flushing to a directory and to a pool, and loading from them, beside fio and
// `rados bench` in the same run; which parts leave, by S3-FIFO against LRU, on traces; and a cache
// that is smaller than what is used, under a Zipf load.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <list>
#include <set>
#include <string>
#include <unordered_map>

#include <fmt/format.h>
#include <unistd.h>

#include "backend/directory_tier.h"
#include "cache/cache.h"
#include "common/report.h"
#include "tiers.h"
#include "traces.h"

namespace verbena::bench {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr uint64_t kSegmentBytes = cache::kSegmentParts * store::kDataBytes;

// --- which leave

double hits_of_s3_fifo(const std::vector<uint32_t>& uses, size_t room) {
  cache::EvictionQueue queue;
  std::vector<bool> here;
  size_t hits = 0;
  for (const uint32_t use : uses) {
    if (use >= here.size()) here.resize(use + 1);
    if (here[use]) {
      ++hits;
      queue.use({{}, use});
      continue;
    }
    if (queue.size() >= room) {
      if (const auto out = queue.next()) here[out->number] = false;
    }
    queue.add({{}, use});
    here[use] = true;
  }
  return static_cast<double>(hits) / static_cast<double>(uses.size());
}

double hits_of_lru(const std::vector<uint32_t>& uses, size_t room) {
  std::list<uint32_t> order;
  std::unordered_map<uint32_t, std::list<uint32_t>::iterator> here;
  size_t hits = 0;
  for (const uint32_t use : uses) {
    const auto found = here.find(use);
    if (found != here.end()) {
      ++hits;
      order.splice(order.begin(), order, found->second);
      continue;
    }
    if (here.size() >= room) {
      here.erase(order.back());
      order.pop_back();
    }
    order.push_front(use);
    here[use] = order.begin();
  }
  return static_cast<double>(hits) / static_cast<double>(uses.size());
}

void policies() {
  constexpr uint32_t kSegments = 20'000;
  constexpr size_t kUses = 1'000'000;
  fmt::print("hit rates on traces of {} uses of {} segments, by what share of them fits\n", kUses, kSegments);
  fmt::print("  {:<34} {:>17} {:>17} {:>17}\n", "S3-FIFO / LRU", "10 %", "50 %", "90 %");
  for (const Trace& trace : all_traces(kSegments, kUses)) {
    fmt::print("  {:<34}", trace.name);
    for (const size_t percent : {10, 50, 90}) {
      const size_t room = kSegments * percent / 100;
      fmt::print("   {:.3f} / {:.3f} ", hits_of_s3_fifo(trace.uses, room), hits_of_lru(trace.uses, room));
    }
    fmt::print("\n");
  }
}

// --- a whole cache

void under_zipf(const Settings& settings, const fs::path& folder) {
  const uint64_t bytes = settings.mib << 20;
  const auto segments = static_cast<uint32_t>(bytes / kSegmentBytes);
  const auto uses = zipf(segments, 0.99, 20'000, 7);
  fmt::print("reads of 64 KiB, Zipf 0.99 over {} MiB, one thread\n", settings.mib);
  double all_here = 0;
  for (const uint64_t percent : {100, 90, 50, 10}) {
    const fs::path tier_folder = folder / "tier";
    fs::create_directory(tier_folder);
    {
      auto tier = must(backend::DirectoryTier::open(tier_folder.string()));
      auto store = make_store(bytes + bytes / 4);
      cache::Options options;
      options.max_chunks = segments * cache::kSegmentParts * percent / 100;
      options.flush_after = 0;
      if (percent == 100) options.max_chunks = 0;
      cache::Cache cache(*store, *tier, options);
      must(cache.open());
      must(store->create_object({1, 1}, "o"));
      std::vector<uint8_t> piece(kSegmentBytes, 7);
      for (uint32_t i = 0; i < segments; ++i) must(store->write({1, 1}, i * kSegmentBytes, piece));
      must(cache.flush_all());
      cache.start();
      piece.resize(64 << 10);
      size_t count = 0;
      auto begin = Clock::now();
      uint64_t loads = 0;
      const auto misses = [&] {
        return cache.counter(cache::Counter::kLoads) - cache.counter(cache::Counter::kAheadLoads);
      };
      for (const uint32_t use : uses) {
        if (++count == uses.size() / 2) {  // warm by now
          begin = Clock::now();
          loads = misses();
        }
        const uint64_t at = use * kSegmentBytes;
        static_cast<void>(must(cache.run([&] { return store->read({1, 1}, at, piece); })));
        cache.used({1, 1}, at, piece.size());
      }
      const double measured = static_cast<double>(uses.size()) / 2;
      const double rate = measured / seconds_since(begin);
      if (percent == 100) all_here = rate;
      const double hits = 1 - static_cast<double>(misses() - loads) / measured;
      fmt::print("  {:3} % fits: hit rate {:.3f}, {:8.0f} reads/s, {:.2f} of all here\n", percent, hits, rate, rate / all_here);
      cache.stop();
    }
    fs::remove_all(tier_folder);
  }
}

int run(const Settings& settings) {
  fmt::print("{}; files in {}\n", machine(), settings.folder);
  Report report;
  std::string name = settings.folder + "/verbena-bench-XXXXXX";
  if (mkdtemp(name.data()) == nullptr) give_up("no folder can be made in " + settings.folder);
  if (settings.wanted("directory")) measure_directory(settings, name, report);
  if (settings.wanted("rados")) measure_pool(settings, report);
  if (settings.wanted("eviction")) policies();
  if (settings.wanted("zipf")) under_zipf(settings, name);
  fs::remove_all(name);
  return 0;
}

}  // namespace
}  // namespace verbena::bench

int main(int count, char** arguments) {
  verbena::bench::Settings settings;
  CLI::App app{"Flushing and loading beside fio and rados bench; eviction; a cache under a Zipf load."};
  app.add_option("--folder", settings.folder, "where the files are made")->capture_default_str();
  app.add_option("--mib", settings.mib, "of data")->capture_default_str();
  app.add_option("--rounds", settings.rounds, "of each measurement; the median counts")->capture_default_str();
  app.add_option("--only", settings.only, "of: directory, rados, eviction, zipf")
      ->check(CLI::IsMember({"directory", "rados", "eviction", "zipf"}));
  CLI11_PARSE(app, count, arguments);
  return verbena::bench::run(settings);
}
