// SPDX-License-Identifier: Apache-2.0
#include "store_cli/opening.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "store/drafts.h"
#include "store/folder_lock.h"
#include "store/folder_names.h"
#include "store/folder_shape.h"
#include "store_cli/directory_options.h"
#include "store_cli/interrupts.h"

namespace verbena::store_cli {
namespace {

namespace fs = std::filesystem;

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

std::optional<OpenedStore> open_store(const StoreChoice& choice, Need need, Report& report) {
  if (!check_folders(choice, report)) return std::nullopt;
  const std::vector<std::string> folders = folders_of(choice);
  auto options = directory_options(choice, folders.size());
  options->store.read_only = only_reads(need);
  options->store.on_demand = need == Need::kRead;
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

std::optional<OpenedObjects> open_objects(const StoreChoice& choice, Need need, Report& report) {
  if (!check_choice(choice, report)) return std::nullopt;
  OpenedObjects opened;
  if (place_of(choice) == Place::kDirectory) {
    opened.local = open_store(choice, need, report);
    if (!opened.local) return std::nullopt;
    return opened;
  }
  const auto options = remote_options(choice.server, report);
  if (!options) return std::nullopt;
  auto remote = client::open_remote(*options);
  if (!remote) {
    report.error(remote.error());
    return std::nullopt;
  }
  opened.remote = std::move(*remote);
  return opened;
}

void close_objects(OpenedObjects& opened, Report& report) {
  if (opened.local) return close_store(*opened.local, report);
  if (const auto durable = opened.remote->flush(); !durable) report.error(durable.error());
}

}  // namespace verbena::store_cli
