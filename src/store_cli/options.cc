// SPDX-License-Identifier: Apache-2.0
#include "store_cli/options.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "store/folder_shape.h"
#include "store_cli/draft.h"
#include "store_cli/interrupts.h"
#include "store_cli/sizes.h"

namespace verbena::store_cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDataVariable = "VERBENA_DATA";

[[nodiscard]] std::vector<std::string> folders_of(const StoreChoice& choice) {
  if (!choice.folders.empty()) return choice.folders;
  const char* const variable = std::getenv(kDataVariable);
  std::vector<std::string> folders;
  for (std::string_view left = variable == nullptr ? "" : variable; !left.empty();) {
    const size_t colon = std::min(left.find(':'), left.size());
    if (colon > 0) folders.emplace_back(left.substr(0, colon));
    left.remove_prefix(std::min(colon + 1, left.size()));
  }
  return folders;
}

[[nodiscard]] Result<store::DirectoryOptions, std::string> options_of(const StoreChoice& choice,
                                                                      size_t folders, Need need) {
  store::DirectoryOptions options;
  options.store.read_only = need == Need::kRead;
  if (!(choice.wait_seconds >= 0)) {
    return fail(fmt::format("--wait: invalid time {}", choice.wait_seconds));
  }
  if (choice.kind == "staged") {
    options.kind = store::Kind::kStaged;
  } else if (choice.kind != "mapped") {
    return fail(fmt::format("--kind: '{}' is not one of: mapped, staged", choice.kind));
  }
  if (choice.sync == "each") {
    options.store.durability = store::Durability::kEach;
  } else if (choice.sync != "end") {
    return fail(fmt::format("--sync: '{}' is not one of: end, each", choice.sync));
  }
  if (!choice.capacity.empty()) {
    const auto bytes = parse_size(choice.capacity);
    if (!bytes) return fail("--capacity: " + bytes.error());
    // A block for data, and two for what the store needs itself.
    const uint64_t least = 3 * folders * options.chunks_per_block * store::kChunkBytes;
    if (*bytes < least) {
      return fail(fmt::format("--capacity: the minimum is {}", human_size(least)));
    }
    options.capacity_bytes = *bytes;
  }
  return options;
}

// Whether a store may be made there without touching what is somebody else's: the folder is missing
// or empty, but for what a creation that failed or was killed left.
[[nodiscard]] bool free_for_store(const std::string& folder) {
  std::error_code error;
  if (!fs::exists(folder, error)) return !error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    const bool unfinished = name.starts_with("blocks.") && name.ends_with(".new");
    if (name != "lock" && !unfinished) return false;
  }
  return !error;
}

// A store to work with, and how it came about.
struct Found {
  store::Result<store::DirectoryStore> directory;
  store::OpenReport report{};
  bool created = false;
};

[[nodiscard]] Found open_or_create(const std::vector<std::string>& folders,
                                   const store::DirectoryOptions& options, Need need) {
  store::OpenReport report;
  auto opened = store::DirectoryStore::open(folders, options, &report);
  if (opened) return {std::move(opened), std::move(report)};
  store::Error error = opened.error();
  // Of one whose maker was killed before its first superblock, nothing is lost.
  const bool unfinished = error.code == store::Code::kDamaged && store::unfinished(folders);
  if (error.code != store::Code::kNoStore && !unfinished) return {fail(std::move(error))};
  if (need != Need::kCreate) {
    if (unfinished) error = {store::Code::kNoStore, "the store was not completely created", {}};
    error.what += "; `verbena put` creates one";
    return {fail(std::move(error))};
  }
  if (!unfinished && !std::ranges::all_of(folders, free_for_store)) {
    error.what += "; a store is created only in a directory that does not exist or is empty";
    return {fail(std::move(error))};
  }
  return {store::DirectoryStore::create(folders, options), {}, true};
}

// Commands are short: who comes second waits a little. So does who finds that another process has
// just made the store, or is making it.
[[nodiscard]] Found open_patiently(const std::vector<std::string>& folders,
                                   const store::DirectoryOptions& options, Need need,
                                   double wait_seconds) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + std::chrono::duration<double>(wait_seconds);
  for (;;) {
    Found found = open_or_create(folders, options, need);
    if (found.directory) return found;
    const store::Code code = found.directory.error().code;
    if (code != store::Code::kInUse && code != store::Code::kExists) return found;
    if (Clock::now() >= until || interrupted() != 0) return found;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace

void add_data_option(cli::Command& to, StoreChoice& choice) {
  to.list("-d,--data", choice.folders, "DIR",
          "directory of the store; may be repeated for one store in\n"
          "several directories, one per NUMA node ($VERBENA_DATA)");
  add_wait_option(to, choice);
}

void add_wait_option(cli::Command& to, StoreChoice& choice) {
  to.option("--wait", choice.wait_seconds, "SECONDS",
            "time to wait for a store in use by another process (default 1)");
}

void add_writing_options(cli::Command& to, StoreChoice& choice) {
  to.option("--sync", choice.sync, "WHEN",
            "when data is made durable: end, when the command ends;\n"
            "each, also after each piece (default end)")
      .option("--kind", choice.kind, "HOW",
              "how files are accessed: mapped, as mapped memory; staged,\n"
              "through buffers and io_uring (default mapped)")
      .option("--capacity", choice.capacity, "SIZE",
              "maximum size of the files of the store, such as 10G or\n"
              "512MiB (default: until the disk is full)");
}

void add_speech_options(cli::Command& to, Speech& speech, Shows shows) {
  to.flag("--json", speech.json, "print one JSON document on standard output");
  if (shows == Shows::kSizes) to.flag("--bytes", speech.bytes, "print sizes in bytes");
  to.flag("-q,--quiet", speech.quiet, "print errors only");
}

void add_progress_option(cli::Command& to, Speech& speech) {
  to.flag("--no-progress", speech.no_progress, "print no progress bar on a terminal");
}

std::optional<OpenedStore> open_store(const StoreChoice& choice, Need need, Report& report) {
  const std::vector<std::string> folders = folders_of(choice);
  if (folders.empty()) {
    report.error(kUsage, "invalid", "no store given: use --data DIR or set VERBENA_DATA");
    return std::nullopt;
  }
  const auto options = options_of(choice, folders.size(), need);
  if (!options) {
    report.error(kUsage, "invalid", options.error());
    return std::nullopt;
  }
  Found found = open_patiently(folders, *options, need, choice.wait_seconds);
  if (!found.directory) {
    report.error(found.directory.error());
    return std::nullopt;
  }
  if (found.created)
    report.note(fmt::format("created a new store in {}", fmt::join(folders, ", ")));
  for (const store::Damage& damage : found.report.damage) {
    report.note(store::is_file(damage)
                    ? sentence_of(damage) + ": data that was in it is lost"
                    : fmt::format("one of two copies is damaged, the other one was used: {}",
                                  sentence_of(damage)));
  }
  OpenedStore result{std::move(*found.directory), found.created, std::move(found.report)};
  if (need != Need::kRead && !result.created) {
    const auto removed = remove_drafts(result.directory.store());
    if (!removed) {
      report.error(removed.error());
      return std::nullopt;
    }
    if (*removed > 0)
      report.note(fmt::format("removed the data of {} unfinished put(s)", *removed));
  }
  return result;
}

void close_store(OpenedStore& opened, Report& report) {
  if (const auto closed = opened.directory->close(); !closed) report.error(closed.error());
}

store::Result<std::optional<store::ObjectInfo>> look_up(const store::Store& store,
                                                        const ObjectName& object) {
  store::ObjectId id;
  if (const auto* const name = std::get_if<std::string>(&object)) {
    const auto found = store.find(*name);
    if (!found && found.error().code == store::Code::kNotFound) return std::nullopt;
    if (!found) return fail(found.error());
    id = *found;
  } else {
    id = std::get<store::ObjectId>(object);
  }
  auto info = store.stat(id);
  if (!info && info.error().code == store::Code::kNotFound) return std::nullopt;
  if (!info) return fail(info.error());
  return std::move(*info);
}

std::optional<store::ObjectInfo> find_object(const store::Store& store, const std::string& text,
                                             Report& report) {
  const auto object = parse_object(text);
  if (!object) {
    report.error(kUsage, "invalid", object.error());
    return std::nullopt;
  }
  auto info = look_up(store, *object);
  if (!info) {
    report.error(info.error(), text);
    return std::nullopt;
  }
  if (!info->has_value()) {
    report.error({store::Code::kNotFound, "no such object", {}}, text);
  }
  return std::move(*info);
}

}  // namespace verbena::store_cli
