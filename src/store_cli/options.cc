// SPDX-License-Identifier: Apache-2.0
#include "store_cli/options.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "store/drafts.h"
#include "store/folder_lock.h"
#include "store/folder_names.h"
#include "store/folder_shape.h"
#include "store_cli/interrupts.h"
#include "store_cli/sizes.h"

namespace verbena::store_cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDataVariable = "VERBENA_DATA";

}  // namespace

std::vector<std::string> folders_of(const StoreChoice& choice) {
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

namespace {

[[nodiscard]] Result<store::DirectoryOptions, std::string> options_of(const StoreChoice& choice,
                                                                      size_t folders, Need need) {
  store::DirectoryOptions options;
  options.store.read_only = only_reads(need);
  options.store.on_demand = need == Need::kRead;
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
  if (fs::exists(folder, error) && !fs::is_directory(folder, error)) return false;
  const auto names = store::names_in(folder);
  return names && std::ranges::all_of(*names, [](const std::string& name) {
           const bool unfinished = name.starts_with("blocks.") && name.ends_with(".new");
           // A file system has lost+found from the beginning.
           return name == "lock" || name == "lost+found" || unfinished;
         });
}

// Whether another process has made a store there since it was looked for, or is making it.
[[nodiscard]] bool made_meanwhile(const std::vector<std::string>& folders) {
  const auto holds = [](const std::string& folder) {
    return store::holds_store(folder).value_or(false);
  };
  const auto in_use = [&](const std::string& folder) {
    if (!holds(folder)) return false;
    const auto lock = store::FolderLock::take(folder, store::FolderLock::Mode::kRead);
    return !lock && lock.error().code == store::Code::kInUse;
  };
  return std::ranges::all_of(folders, holds) || std::ranges::any_of(folders, in_use);
}

// A store to work with, and how it came about.
struct Found {
  store::Result<store::DirectoryStore> directory;
  store::OpenReport report{};
  bool created = false;
  bool changing = false;  // another process is making it: look again
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
    if (made_meanwhile(folders)) return {fail(std::move(error)), {}, false, true};
    error.what += "; a store is created only in a directory that does not exist or is empty";
    return {fail(std::move(error))};
  }
  return {store::DirectoryStore::create(folders, options), {}, true};
}

[[nodiscard]] store::Error writer_is_waiting(const std::string& folder) {
  return {store::Code::kInUse,
          fmt::format("the store in {} is in use: another process waits to write to it", folder),
          {}};
}

// Commands are short: who comes second waits a little. So does who finds that another process has
// just made the store, or is making it.
[[nodiscard]] Found open_patiently(const std::vector<std::string>& folders,
                                   const store::DirectoryOptions& options, Need need,
                                   double wait_seconds) {
  using Clock = std::chrono::steady_clock;
  const auto until = Clock::now() + std::chrono::duration<double>(wait_seconds);
  // What is changing is looked at again at once, but not for ever: some folders of a store may be
  // another's.
  constexpr int kLooks = 5;
  const bool reads = only_reads(need);
  std::vector<store::WriterGate> gates(reads ? 0 : folders.size());
  for (int looks = 0;; ++looks) {
    const bool writer_waits = reads && std::ranges::any_of(folders, store::WriterGate::held);
    Found found = writer_waits ? Found{fail(writer_is_waiting(folders.front()))}
                               : open_or_create(folders, options, need);
    if (found.directory) return found;
    if (found.changing && looks < kLooks) continue;
    const store::Code code = found.directory.error().code;
    if (code != store::Code::kInUse && code != store::Code::kExists && !found.changing) {
      return found;
    }
    if (Clock::now() >= until || interrupted() != 0) return found;
    for (size_t i = 0; i < gates.size(); ++i) gates[i].try_hold(folders[i]);
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace

void add_data_option(cli::Command& to, StoreChoice& choice) {
  add_folder_option(to, choice);
  add_wait_option(to, choice);
}

void add_folder_option(cli::Command& to, StoreChoice& choice) {
  to.list("-d,--data", choice.folders, "DIR",
          "directory of the store; may be repeated for one store in\n"
          "several directories, one per NUMA node ($VERBENA_DATA)");
}

void add_wait_option(cli::Command& to, StoreChoice& choice) {
  to.option("--wait", choice.wait_seconds, "SECONDS",
            "time to wait for a store in use by another process (default 1)");
}

void add_folder_words(cli::Command& to, StoreChoice& choice) {
  to.optional_words("DIR", "[DIR...]", choice.folders,
                    "the directories of one store, as an alternative to --data");
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

void no_store_given(Report& report) {
  report.error(kUsage, "invalid", "no store given: use --data DIR or set VERBENA_DATA");
}

bool check_choice(const StoreChoice& choice, Report& report) {
  const std::vector<std::string> folders = folders_of(choice);
  if (folders.empty()) {
    no_store_given(report);
    return false;
  }
  const auto options = options_of(choice, folders.size(), Need::kCreate);
  if (!options) report.error(kUsage, "invalid", options.error());
  return options.has_value();
}

std::optional<OpenedStore> open_store(const StoreChoice& choice, Need need, Report& report) {
  if (!check_choice(choice, report)) return std::nullopt;
  const std::vector<std::string> folders = folders_of(choice);
  const auto options = options_of(choice, folders.size(), need);
  Found found = open_patiently(folders, *options, need, choice.wait_seconds);
  if (!found.directory) {
    report.error(found.directory.error());
    return std::nullopt;
  }
  if (found.created)
    report.note(fmt::format("created a new store in {}", fmt::join(folders, ", ")));
  for (const store::Damage& file : found.report.files) {
    report.note(sentence_of(file) + ": data that was in it is lost");
  }
  for (const store::Damage& damage : found.report.damage) {
    report.note(fmt::format("one of two copies is damaged, the other one was used: {}",
                            sentence_of(damage)));
  }
  OpenedStore result{std::move(*found.directory), found.created, std::move(found.report)};
  if (!only_reads(need) && !result.created) {
    const auto removed = store::remove_drafts(result.directory.store());
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

store::Result<std::optional<store::ObjectInfo>> look_up(const store::Objects& store,
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

std::optional<store::ObjectInfo> find_object(const store::Objects& store, const std::string& text,
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
