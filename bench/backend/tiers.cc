// SPDX-License-Identifier: Apache-2.0
#include "tiers.h"

#include <array>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string_view>
#include <vector>

#include <fcntl.h>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "backend/directory_tier.h"
#include "backend/rados_format.h"
#include "backend/rados_tier.h"
#include "base/random.h"
#include "base/unique_fd.h"
#include "cache/cache.h"
#include "medium/malloc_backend.h"

namespace verbena::bench {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kObjects = 8;

// What a program prints, as JSON.
nlohmann::json run_peer(const std::string& command) {
  FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) give_up("cannot be started: " + command);
  std::string said;
  std::array<char, 4096> buffer{};
  while (const size_t got = fread(buffer.data(), 1, buffer.size(), pipe)) said.append(buffer.data(), got);
  if (pclose(pipe) != 0) give_up(fmt::format("{}: failed: {}", command, said.substr(0, 300)));
  const auto begin = said.find('{');
  auto report = begin == std::string::npos
                    ? nlohmann::json(nlohmann::json::value_t::discarded)
                    : nlohmann::json::parse(said.substr(begin), nullptr, false);
  if (report.is_discarded()) give_up(fmt::format("{}: not understood: {}", command, said.substr(0, 300)));
  return report;
}

// Bytes per second of fio, with the files that an object would be.
double fio(const fs::path& folder, const char* direction, uint64_t bytes) {
  const auto report = run_peer(fmt::format(
      "fio --name=peer --directory={} --rw={} --bs=4M --filesize={} --nrfiles={} --ioengine=psync {} "
      "--output-format=json 2>&1",
      folder.string(), direction, bytes / kObjects, kObjects,
      std::string_view(direction) == "write" ? "--end_fsync=1" : ""));
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

struct Rows {
  Row flush;
  Row load;
  Rows(const char* writer, const char* reader)
      : flush{.name = "flush", .unit = "GB/s", .scale = 1e9, .peer = writer, .goal = {.aim = 0.8}, .ours = {}, .theirs = {}},
        load{.name = "load, and read once", .unit = "GB/s", .scale = 1e9, .peer = reader, .goal = {.aim = 0.8}, .ours = {}, .theirs = {}} {}
  void print(Report& report) const {
    report.print(flush);
    report.print(load);
  }
};

// New objects are flushed, evicted, and read in order.
void measure_ours(backend::Tier& tier, uint64_t bytes, uint64_t seed, const std::function<void()>& forget,
                  Rows& rows) {
  auto store = make_store(bytes + bytes / 4);
  cache::Cache cache(*store, tier, {.flush_after = 0});
  must(cache.open());
  std::vector<uint8_t> piece(1 << 20);
  SeededRandom random(seed);
  for (uint8_t& byte : piece) byte = static_cast<uint8_t>(random.next());
  for (uint64_t i = 0; i < kObjects; ++i) {
    must(store->create_object({1, i}, fmt::format("o{}", i)));
    for (uint64_t at = 0; at < bytes / kObjects; at += piece.size()) must(store->write({1, i}, at, piece));
  }
  auto begin = Clock::now();
  must(cache.flush_all());
  rows.flush.ours.push_back(static_cast<double>(bytes) / seconds_since(begin));
  cache.evict_all();
  forget();
  cache.start();
  begin = Clock::now();
  for (uint64_t i = 0; i < kObjects; ++i) {
    for (uint64_t at = 0; at < bytes / kObjects; at += piece.size()) {
      static_cast<void>(must(cache.run([&] { return store->read({1, i}, at, piece); })));
      cache.used({1, i}, at, piece.size());
    }
  }
  rows.load.ours.push_back(static_cast<double>(bytes) / seconds_since(begin));
  // For the next round.
  for (uint64_t i = 0; i < kObjects; ++i) must(cache.remove({1, i}));
  must(cache.flush_all());
}

// Bytes per second of `rados bench`, with objects of the size of a stripe.
double rados_bench(const std::string& folder, const char* direction) {
  constexpr int kSeconds = 2;
  const auto report = run_peer(fmt::format("rados -c {}/ceph.conf -p test bench {} {} -t 8 --run-name peer --format json 2>/dev/null",
                                           folder, kSeconds, direction));
  constexpr double kMib = 1 << 20;
  const auto& value = report["bandwidth"];
  return kMib * (value.is_string() ? std::stod(value.get<std::string>()) : value.get<double>());
}

}  // namespace

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

void give_up(const std::string& what) {
  fmt::print(stderr, "{}\n", what);
  std::exit(1);
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

void measure_directory(const Settings& settings, const fs::path& folder, Report& report) {
  const uint64_t bytes = settings.mib << 20;
  report.heading(fmt::format("{} files of {} MiB together, written with fsync, read past the page cache",
                             kObjects, settings.mib));
  Rows rows("fio write", "fio read");
  const fs::path ours = folder / "tier";
  const fs::path theirs = folder / "fio";
  for (uint32_t round = 0; round < settings.rounds; ++round) {
    fs::create_directory(ours);
    {
      auto tier = must(backend::DirectoryTier::open(ours.string()));
      measure_ours(*tier, bytes, round, [&] { forget_pages(ours); }, rows);
    }
    fs::remove_all(ours);
    fs::create_directory(theirs);
    rows.flush.theirs.push_back(fio(theirs, "write", bytes));
    rows.load.theirs.push_back(fio(theirs, "read", bytes));
    fs::remove_all(theirs);
  }
  rows.print(report);
}

void measure_pool(const Settings& settings, Report& report) {
  const char* const folder = std::getenv("VERBENA_TEST_CEPH");
  if (folder == nullptr) return fmt::print("no cluster: VERBENA_TEST_CEPH is not set\n");
  const uint64_t bytes = settings.mib << 20;
  report.heading(fmt::format("{} objects of {} MiB together, in a pool of 3 OSDs in memory, 2 copies", kObjects, settings.mib));
  Rows rows("rados bench write", "rados bench seq");
  auto tier = must(backend::RadosTier::open({.pool = "test", .name_space = "bench", .conf = std::string(folder) + "/ceph.conf"}));
  const std::string write = fmt::format("write --no-cleanup -b {}", backend::kStripeBytes);
  for (uint32_t round = 0; round < settings.rounds; ++round) {
    measure_ours(*tier, bytes, round, [] {}, rows);
    rows.flush.theirs.push_back(rados_bench(folder, write.c_str()));
    rows.load.theirs.push_back(rados_bench(folder, "seq"));
    // What it has written takes the room of the next round.
    const std::string clean = fmt::format("rados -c {}/ceph.conf -p test cleanup --run-name peer >/dev/null 2>&1", folder);
    if (std::system(clean.c_str()) != 0) give_up("failed: " + clean);
  }
  rows.print(report);
}

}  // namespace verbena::bench
