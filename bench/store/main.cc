// SPDX-License-Identifier: Apache-2.0
// `./dev bench store`: the store's engine against copying memory with one pass of CRC, opening and
// scrubbing against reading the files, clones against copies; each with its peer in the same run.
#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "common/report.h"
#include "lifetimes.h"
#include "objects.h"
#include "requests.h"

namespace verbena::bench {
namespace {

struct Settings {
  uint32_t rounds = 5;
  double scale = 1;
  std::string folder = "/var/tmp";
  std::string json;
  std::string match;
  std::string only;
  uint64_t mib = 256;
  [[nodiscard]] uint64_t store_bytes() const { return mib << 20; }
};

constexpr uint32_t kLarge = 1u << 20;

struct Case {
  const char* name;
  Requests requests;
  Goal goal;
};

std::vector<Case> cases(const Settings& settings) {
  std::vector<Case> all{
      {"write 1 MiB", {Direction::kWrite, kLarge, kLarge, false}, {.aim = 0.8}},
      {"read 1 MiB", {Direction::kRead, kLarge, kLarge, false}, {.aim = 0.8}},
      {"overwrite 4048 at 4048 x n, in order",
       {Direction::kWrite, 4048, 4048, false},
       {.aim = 0.5}},
      {"overwrite 4096 at 4096 x n, in order",
       {Direction::kWrite, 4096, 4096, false},
       {.aim = 0.25}},
      {"overwrite 4048 at 4048 x n, anywhere", {Direction::kWrite, 4048, 4048, true}, {.aim = 0.5}},
      {"overwrite 4096 at 4048 x n, anywhere", {Direction::kWrite, 4096, 4048, true}, {}},
      {"overwrite 4096 at 4096 x n, anywhere",
       {Direction::kWrite, 4096, 4096, true},
       {.aim = 0.25}},
      {"read 4048 at 4048 x n, anywhere", {Direction::kRead, 4048, 4048, true}, {}},
      {"read 4096 at 4096 x n, anywhere", {Direction::kRead, 4096, 4096, true}, {}},
  };
  std::erase_if(all,
                [&](const Case& c) { return !std::string_view(c.name).contains(settings.only); });
  return all;
}

// A folder below the given one that is gone afterwards.
class Folder {
 public:
  explicit Folder(const std::string& below) : path_(below + "/verbena-bench-XXXXXX") {
    if (mkdtemp(path_.data()) == nullptr) {
      fmt::print(stderr, "cannot make a folder in {}: see --folder\n", below);
      std::exit(2);
    }
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

[[nodiscard]] uint64_t work(const Settings& settings, const Requests& requests) {
  const double bytes = requests.bytes < kLarge ? 400e6 : 2e9;
  return static_cast<uint64_t>(settings.scale * bytes);
}

[[nodiscard]] bool wanted(const Settings& settings, const char* part) {
  return settings.match.empty() || std::string_view(part).contains(settings.match);
}

void against_the_limit(Report& report, const Settings& settings, Medium medium) {
  const Folder folder(medium == Medium::kShared ? "/dev/shm" : settings.folder);
  const auto store = make_store(medium, folder.path(), settings.store_bytes(), true);
  const Arena arena(settings.store_bytes());
  report.heading(fmt::format(
      "One thread, {}; against memcpy to or from as much memory and ISA-L's CRC of the source",
      name_of(medium)));
  for (const Case& c : cases(settings)) {
    // On a disk it is the disk that is measured.
    const Goal goal = medium == Medium::kFiles || medium == Medium::kStaged ? Goal{} : c.goal;
    Row row{c.name, "GB/s", 1e9, "GB/s memcpy + CRC", goal, {}, {}};
    for (uint32_t round = 0; round < settings.rounds; ++round) {
      row.ours.push_back(through_engine(*store, c.requests, work(settings, c.requests)));
      row.theirs.push_back(by_memcpy_and_crc(arena, c.requests, work(settings, c.requests)));
    }
    report.print(row);
  }
}

void with_and_without_crc(Report& report, const Settings& settings) {
  const auto with = make_store(Medium::kMalloc, {}, settings.store_bytes(), true);
  const auto without = make_store(Medium::kMalloc, {}, settings.store_bytes(), false);
  report.heading("CRC on, against off; malloc, no log");
  for (const Case& c : cases(settings)) {
    Row row{c.name, "GB/s", 1e9, "GB/s without CRC", {}, {}, {}};
    for (uint32_t round = 0; round < settings.rounds; ++round) {
      row.ours.push_back(through_engine(*with, c.requests, work(settings, c.requests)));
      row.theirs.push_back(through_engine(*without, c.requests, work(settings, c.requests)));
    }
    report.print(row);
  }
}

void two_threads(Report& report, const Settings& settings, Medium medium) {
  const Folder folder(medium == Medium::kShared ? "/dev/shm" : settings.folder);
  const auto store = make_store(medium, folder.path(), 2 * settings.store_bytes(), true);
  report.heading(fmt::format("Two threads, each its own object, against one; {}", name_of(medium)));
  for (const Case& c : cases(settings)) {
    Row row{c.name, "GB/s", 1e9, "GB/s one thread", {}, {}, {}};
    for (uint32_t round = 0; round < settings.rounds; ++round) {
      row.ours.push_back(with_threads(*store, c.requests, work(settings, c.requests), 2));
      row.theirs.push_back(with_threads(*store, c.requests, work(settings, c.requests), 1));
    }
    report.print(row);
  }
}

void lifetimes(Report& report, const Settings& settings) {
  struct Size {
    const char* name;
    uint64_t bytes;
    uint32_t piece;
    double aim;
  };
  const auto scaled = [&](uint64_t gib) {
    return static_cast<uint64_t>(settings.scale * static_cast<double>(gib << 30));
  };
  for (const Size& size :
       {Size{"1 MiB", scaled(4), kLarge, 0.05}, Size{"4048 bytes", scaled(1), 4048, 0}}) {
    report.heading(
        fmt::format("A store of {:.3g} GiB written {} at a time, its process killed; files (msync)",
                    static_cast<double>(size.bytes) / (1 << 30), size.name));
    Row open{"open", "ms", 1e-3, "ms reading the files (cached)", {size.aim, 0, true}, {}, {}};
    Row scrub{"scrub", "s", 1, "s reading the files (O_DIRECT)", {1.25, 0, true}, {}, {}};
    Opened opened;
    for (uint32_t round = 0; round < (settings.rounds + 1) / 2; ++round) {
      const Folder folder(settings.folder);
      make_crashed_store(folder.path(), size.bytes, size.piece);
      open.theirs.push_back(read_files(folder.path(), false));
      opened = open_store(folder.path());
      open.ours.push_back(opened.seconds);
      scrub.theirs.push_back(read_files(folder.path(), true));
      scrub.ours.push_back(scrub_store(folder.path()));
    }
    report.print(open);
    report.print(scrub);
    fmt::print("    {} mappings, {} chunks verified at opening\n", opened.mappings,
               opened.verified);
  }
}

void clones(Report& report, const Settings& settings) {
  report.heading(
      fmt::format("Cloning an object of {:.3g} GiB, against copying it through the engine; malloc",
                  settings.scale));
  Row row{"clone", "ms", 1e-3, "ms copying", {0.01, 0, true}, {}, {}};
  for (uint32_t round = 0; round < settings.rounds; ++round) {
    const Cloned cloned =
        clone_and_copy(static_cast<uint64_t>(settings.scale * static_cast<double>(1ull << 30)));
    row.ours.push_back(cloned.clone);
    row.theirs.push_back(cloned.copy);
  }
  report.print(row);
}

void checkpoints(Report& report, const Settings& settings) {
  constexpr uint64_t kMost = 4'000'000;
  constexpr uint64_t kMappingBytes = 43;  // in each of the two copies
  report.heading("A checkpoint, which nothing else goes beside; files on disk (msync)");
  for (const uint64_t mappings : {kMost / 16, kMost / 4, kMost}) {
    Row row{fmt::format("of {} mappings", mappings),
            "ms",
            1e-3,
            "ms writing as many bytes, fdatasync",
            {},
            {},
            {}};
    for (uint32_t round = 0; round < settings.rounds; ++round) {
      const Folder folder(settings.folder);
      row.ours.push_back(checkpoint_store(folder.path(), mappings));
      row.theirs.push_back(write_file(folder.path() + "/plain", 2 * kMappingBytes * mappings));
    }
    report.print(row);
  }
}

// What a request of a server waits for, at most.
void checkpoint_pauses(Report& report, const Settings& settings) {
  constexpr uint64_t kMost = 4'000'000;
  report.heading("The longest write of a chunk beside a checkpoint; files on disk (msync)");
  for (const uint64_t mappings : {kMost / 16, kMost / 4, kMost}) {
    Row row{fmt::format("of {} mappings", mappings),
            "ms",
            1e-3,
            "ms where nothing goes beside it",
            {},
            {},
            {}};
    for (uint32_t round = 0; round < settings.rounds; ++round) {
      const Folder folder(settings.folder);
      const Folder other(settings.folder);
      row.ours.push_back(longest_write_beside_checkpoint(folder.path(), mappings, true));
      row.theirs.push_back(longest_write_beside_checkpoint(other.path(), mappings, false));
    }
    report.print(row);
  }
}

// As many as ours at the time; redis has no word on the disk, or not before a second.
void small_puts(Report& report, const Settings& settings) {
  const auto count = static_cast<uint64_t>(settings.scale * 200'000);
  report.heading(fmt::format(
      "Puts of {} objects of 1,000 bytes in one process, durable after each 1,000; files (msync)",
      count));
  Row sqlite{"against SQLite", "k/s", 1e3, "k/s (WAL, synchronous=FULL)", {.aim = 1}, {}, {}};
  Row logged{"against Redis", "k/s", 1e3, "k/s (--pipe, log synced each second)", {}, {}, {}};
  Row memory{"against Redis", "k/s", 1e3, "k/s (--pipe, in memory alone)", {}, {}, {}};
  for (uint32_t round = 0; round < settings.rounds; ++round) {
    const Folder ours(settings.folder);
    const Folder theirs(settings.folder);
    const double rate = put_objects(ours.path(), count, 1000);
    sqlite.ours.push_back(rate);
    sqlite.theirs.push_back(put_in_sqlite(theirs.path(), count, 1000));
    for (Row* const row : {&logged, &memory}) {
      const Folder redis(settings.folder);
      const double its = put_in_redis(redis.path(), count, 1000, row == &logged);
      if (its == 0) continue;
      row->ours.push_back(rate);
      row->theirs.push_back(its);
    }
  }
  report.print(sqlite);
  for (const Row* const row : {&logged, &memory}) {
    if (row->theirs.empty()) {
      fmt::print("    redis-server is not installed\n");
    } else {
      report.print(*row);
    }
  }
}

void many_objects(Report& report, const Settings& settings) {
  const auto count = static_cast<uint64_t>(settings.scale * 1'000'000);
  const std::string verbena = std::filesystem::read_symlink("/proc/self/exe")
                                  .parent_path()
                                  .parent_path()
                                  .append("bin/verbena");
  const Folder many(settings.folder);
  const Folder few(settings.folder);
  static_cast<void>(put_objects(many.path(), count, 100));
  static_cast<void>(put_objects(few.path(), 100, 100));
  report.heading(fmt::format("One object of {}, of 100 bytes each, against one of a hundred", count));
  Row engine{"open and read", "us", 1e-6, "us of a hundred", {2, 0, true}, {}, {}};
  Row command{"verbena get", "ms", 1e-3, "ms of a hundred", {2, 0, true}, {}, {}};
  for (uint32_t round = 0; round < 20 * settings.rounds; ++round) {
    const uint64_t which = round * 7919 % count;
    engine.ours.push_back(get_object(many.path(), which));
    engine.theirs.push_back(get_object(few.path(), which % 100));
    command.ours.push_back(get_by_command(verbena, many.path(), which));
    command.theirs.push_back(get_by_command(verbena, few.path(), which % 100));
  }
  report.print(engine);
  report.print(command);
  Row space{"files", "MB", 1e6, "MB of content", {12, 0, true}, {}, {}};
  space.ours.push_back(static_cast<double>(bytes_in(many.path())));
  space.theirs.push_back(static_cast<double>(100 * count));
  report.print(space);
}

int run(const Settings& settings) {
  fmt::print("{}\nMedians of {} rounds in turns. Files in {}.\n", machine(), settings.rounds,
             settings.folder);
  Report report;
  for (const Medium medium : {Medium::kMalloc, Medium::kShared, Medium::kFiles, Medium::kStaged}) {
    if (wanted(settings, "limit")) against_the_limit(report, settings, medium);
  }
  if (wanted(settings, "crc")) with_and_without_crc(report, settings);
  for (const Medium medium : {Medium::kMalloc, Medium::kShared}) {
    if (wanted(settings, "threads")) two_threads(report, settings, medium);
  }
  if (wanted(settings, "clones")) clones(report, settings);
  if (wanted(settings, "checkpoints")) checkpoints(report, settings);
  if (wanted(settings, "pauses")) checkpoint_pauses(report, settings);
  if (wanted(settings, "lifetimes")) lifetimes(report, settings);
  if (wanted(settings, "puts")) small_puts(report, settings);
  if (wanted(settings, "objects")) many_objects(report, settings);
  if (!settings.json.empty()) std::ofstream(settings.json) << report.json() << '\n';
  return report.all_met() ? 0 : 1;
}

}  // namespace
}  // namespace verbena::bench

int main(int argc, char** argv) {
  verbena::bench::Settings settings;
  CLI::App app{"The store's engine, against the limits of memory and disk."};
  app.add_option("--rounds", settings.rounds, "Each measurement so many times; medians are shown");
  app.add_option("--scale", settings.scale, "Of the work in each measurement");
  app.add_option("--folder", settings.folder, "Where stores on files are made, and removed again");
  app.add_option("--match", settings.match,
                 "Only one part: limit, crc, threads, clones, checkpoints, pauses, lifetimes, puts or objects");
  app.add_option("--case", settings.only, "Only the requests whose names have this, e.g. 4048");
  app.add_option("--mib", settings.mib, "Size of the store; half of it is one object");
  app.add_option("--json", settings.json, "Write the figures to this file as well");
  CLI11_PARSE(app, argc, argv);
  return verbena::bench::run(settings);
}
