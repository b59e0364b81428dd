// SPDX-License-Identifier: Apache-2.0
// `./dev bench backend`: flushing to a directory and loading from it, against fio with the same
// files in the same run; which parts leave, by S3-FIFO against LRU, on traces; and a cache that is
// smaller than what is used, under a Zipf load.
#include <CLI/CLI.hpp>
#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <list>
#include <string>
#include <unordered_map>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "backend/directory_tier.h"
#include "base/random.h"
#include "base/unique_fd.h"
#include "cache/cache.h"
#include "common/report.h"
#include "medium/malloc_backend.h"
#include "traces.h"

namespace verbena::bench {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr uint64_t kSegmentBytes = cache::kSegmentParts * store::kDataBytes;

struct Settings {
  std::string folder = "/var/tmp";
  uint64_t mib = 256;
  uint32_t rounds = 3;
};

[[noreturn]] void give_up(const std::string& what) {
  fmt::print(stderr, "{}\n", what);
  std::exit(1);
}
template <typename T>
T must(store::Result<T> result) {
  if (!result) give_up(result.error().what);
  if constexpr (!std::is_void_v<T>) return std::move(*result);
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

std::unique_ptr<store::Store> make_store(uint64_t bytes) {
  medium::MallocOptions memory{.block_bytes = size_t{8} << 20};
  memory.capacity = static_cast<uint32_t>(bytes / memory.block_bytes + 2);
  auto medium = medium::make_malloc_backend(memory);
  if (!medium) give_up(medium.error().what);
  store::Options options;
  options.cache = true;
  return must(store::Store::create(std::move(*medium), options));
}

// Bytes per second of fio, with the files that an object would be.
double fio(const fs::path& folder, const char* direction, uint64_t bytes, int files) {
  const std::string command = fmt::format(
      "fio --name=peer --directory={} --rw={} --bs=4M --filesize={} --nrfiles={} --ioengine=psync "
      "{} --output-format=json 2>&1",
      folder.string(), direction, bytes / static_cast<uint64_t>(files), files,
      std::string_view(direction) == "write" ? "--fsync_on_close=1" : "");
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) give_up("fio cannot be started");
  std::string said;
  std::array<char, 4096> buffer{};
  while (const size_t got = fread(buffer.data(), 1, buffer.size(), pipe)) said.append(buffer.data(), got);
  if (pclose(pipe) != 0) give_up("fio failed: " + said.substr(0, 300));
  const auto begin = said.find('{');
  const auto report = nlohmann::json::parse(said.substr(begin));
  return report["jobs"][0][direction]["bw_bytes"].get<double>();
}

// So that reading reads.
void forget_pages(const fs::path& folder) {
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (!entry.is_regular_file()) continue;
    const UniqueFd file(open(entry.path().c_str(), O_RDONLY | O_CLOEXEC));
    posix_fadvise(file.get(), 0, 0, POSIX_FADV_DONTNEED);
  }
}

void bandwidth(const Settings& settings, const fs::path& folder, Report& report) {
  constexpr int kFiles = 8;
  const uint64_t bytes = settings.mib << 20;
  report.heading(fmt::format("{} files of {} MiB together, written with fsync, read past the page cache",
                             kFiles, settings.mib));
  Row flush{.name = "flush", .unit = "GB/s", .scale = 1e9, .peer = "fio write", .goal = {.aim = 0.8}, .ours = {}, .theirs = {}};
  Row load{.name = "load, and read once", .unit = "GB/s", .scale = 1e9, .peer = "fio read", .goal = {.aim = 0.8}, .ours = {}, .theirs = {}};
  for (uint32_t round = 0; round < settings.rounds; ++round) {
    const fs::path tier_folder = folder / "tier";
    fs::create_directory(tier_folder);
    {
      auto tier = must(backend::DirectoryTier::open(tier_folder.string()));
      auto store = make_store(bytes + bytes / 4);
      cache::Cache cache(*store, *tier, {});
      must(cache.open());
      std::vector<uint8_t> piece(1 << 20);
      SeededRandom random(round);
      for (uint8_t& byte : piece) byte = static_cast<uint8_t>(random.next());
      for (uint64_t i = 0; i < kFiles; ++i) {
        must(store->create_object({1, i}, fmt::format("o{}", i)));
        for (uint64_t at = 0; at < bytes / kFiles; at += piece.size()) {
          must(store->write({1, i}, at, piece));
        }
      }
      auto begin = Clock::now();
      must(cache.flush_all());
      flush.ours.push_back(static_cast<double>(bytes) / seconds_since(begin));
      cache.evict_all();
      forget_pages(tier_folder);
      begin = Clock::now();
      for (uint64_t i = 0; i < kFiles; ++i) {
        for (uint64_t at = 0; at < bytes / kFiles; at += piece.size()) {
          static_cast<void>(must(cache.run([&] { return store->read({1, i}, at, piece); })));
        }
      }
      load.ours.push_back(static_cast<double>(bytes) / seconds_since(begin));
    }
    fs::remove_all(tier_folder);
    const fs::path peer_folder = folder / "fio";
    fs::create_directory(peer_folder);
    flush.theirs.push_back(fio(peer_folder, "write", bytes, kFiles));
    load.theirs.push_back(fio(peer_folder, "read", bytes, kFiles));
    fs::remove_all(peer_folder);
  }
  report.print(flush);
  report.print(load);
}

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
      for (const uint32_t use : uses) {
        if (++count == uses.size() / 2) {  // warm by now
          begin = Clock::now();
          loads = cache.counter(cache::Counter::kLoads);
        }
        const uint64_t at = use * kSegmentBytes;
        static_cast<void>(must(cache.run([&] { return store->read({1, 1}, at, piece); })));
        cache.used({1, 1}, at, piece.size());
      }
      const double measured = static_cast<double>(uses.size()) / 2;
      const double rate = measured / seconds_since(begin);
      if (percent == 100) all_here = rate;
      const double hits = 1 - static_cast<double>(cache.counter(cache::Counter::kLoads) - loads) / measured;
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
  bandwidth(settings, name, report);
  policies();
  under_zipf(settings, name);
  fs::remove_all(name);
  return 0;
}

}  // namespace
}  // namespace verbena::bench

int main(int count, char** arguments) {
  verbena::bench::Settings settings;
  CLI::App app{"Flushing and loading a directory against fio; eviction; a cache under a Zipf load."};
  app.add_option("--folder", settings.folder, "where the files are made")->capture_default_str();
  app.add_option("--mib", settings.mib, "of data")->capture_default_str();
  app.add_option("--rounds", settings.rounds, "of each measurement; the median counts")->capture_default_str();
  CLI11_PARSE(app, count, arguments);
  return verbena::bench::run(settings);
}
