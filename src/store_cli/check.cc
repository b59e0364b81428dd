// SPDX-License-Identifier: Apache-2.0
// `verbena scrub` and `verbena salvage`: whether a store is well, and what to do if it is not.
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "store/directory.h"
#include "store_cli/commands.h"
#include "store_cli/interrupts.h"
#include "store_cli/object_name.h"
#include "store_cli/options.h"
#include "store_cli/print.h"
#include "store_cli/progress.h"

namespace verbena::store_cli {
namespace {

namespace fs = std::filesystem;

constexpr const char* kAboutScrub =
    R"text(Reads every chunk in use and both copies of the log from the medium, bypassing the page cache where
possible, and checks them. Changes nothing; the store may be in use. The exit status is 4 if
something is damaged.

  verbena scrub /srv/store
  verbena scrub --data /srv/store
  verbena scrub --json /mnt/node0/store /mnt/node1/store    one store in two directories
)text";

constexpr const char* kAboutSalvage =
    R"text(The old store is not changed. If its log can be read, objects are copied with their names, sizes and
contents. If parts of its index or log are lost, only what they were about is rebuilt from older
records and from the data chunks; if all of it is lost, all objects are. Salvage reports all guesses
it made. Damaged chunks are not copied; the exit status is then 4.

  verbena salvage /srv/store /srv/new
  verbena salvage --data /srv/store /srv/new
  verbena salvage /mnt/node0/store /mnt/node1/store /srv/new    a store in two directories
)text";

struct CheckOptions {
  StoreChoice store;
  std::vector<std::string> words;  // of salvage
  Speech speech;
};

[[nodiscard]] std::string plural(uint64_t count, const char* what) {
  return fmt::format("{} {}{}", count, what, count == 1 ? "" : "s");
}

void show(const store::ScrubReport& found, Report& report) {
  auto list = nlohmann::ordered_json::array();
  report.fields["chunks"] = found.chunks;
  report.fields["log_chunks"] = found.log_chunks;
  report.fields["bytes"] = found.bytes;
  report.fields["past_cache"] = found.past_cache;
  report.fields["damaged"] = found.damaged;
  std::vector<store::Damage> all = found.files;
  all.insert(all.end(), found.damage.begin(), found.damage.end());
  for (const store::Damage& damage : all) {
    list.push_back(json_of(damage));
    if (!report.json()) print("{}\n", printable(sentence_of(damage)));
  }
  report.fields["damage"] = std::move(list);
  report.fields["incomplete"] = found.incomplete.size();
  for (const store::Damage& one : found.incomplete) report.note(incomplete_note(one));
  if (!report.json() && found.damaged > found.damage.size()) {
    print("... and {} more\n", found.damaged - found.damage.size());
  }
  if (!report.json() && !report.speech().quiet) {
    print("verified {} of data ({}) and {} of the log, {}: {}\n", plural(found.chunks, "chunk"),
          report.size(found.bytes), found.log_chunks,
          found.past_cache ? "bypassing the page cache" : "through the page cache",
          found.damaged > 0      ? fmt::format("{} damaged", found.damaged)
          : !found.files.empty() ? "no other damage"
                                 : "no damage");
  }
  if (!found.files.empty()) {
    report.error(kDamaged, "damaged", plural(found.files.size(), "file") + " missing or cut off");
  }
  if (found.damaged > 0) {
    report.error(kDamaged, "damaged", fmt::format("{} damaged", plural(found.damaged, "chunk")));
  }
}

int scrub(const CheckOptions& options) {
  catch_interrupts();
  Report report("scrub", options.speech);
  const std::vector<std::string> folders = folders_of(options.store);
  if (folders.empty()) {
    no_directory_given(report);
    return report.finish();
  }
  ProgressBar progress(report.shows_progress(), "scrub", 0);
  const auto found = store::scrub(folders, [&](uint64_t done, uint64_t all) {
    progress.update(done * store::kChunkBytes, all * store::kChunkBytes);
    return interrupted() == 0;
  });
  progress.clear();
  if (const int signal = interrupted(); signal != 0) {
    report.interrupted(signal, "interrupted");
  } else if (!found) {
    report.error(found.error());
  } else {
    show(*found, report);
  }
  return report.finish();
}

// A folder that is on its way to be a store: under another name until it is one.
class NewFolder {
 public:
  explicit NewFolder(std::string place) : place_(std::move(place)) {
    while (place_.size() > 1 && place_.ends_with('/')) place_.pop_back();
    part_ = place_ + ".part";
  }
  [[nodiscard]] const std::string& part() const { return part_; }
  [[nodiscard]] Result<void, std::string> check() const {
    std::error_code error;
    if (fs::exists(place_, error) &&
        !(fs::is_directory(place_, error) && fs::is_empty(place_, error))) {
      return fail(place_ + " already exists and is not an empty directory");
    }
    if (fs::exists(part_, error)) {
      return fail(part_ + " exists, left by a salvage that was killed; remove it first");
    }
    return {};
  }
  void discard() const {
    std::error_code error;
    fs::remove_all(part_, error);
  }
  [[nodiscard]] Result<void, std::string> finish() const {
    if (::rename(part_.c_str(), place_.c_str()) != 0) {
      return fail(fmt::format("cannot rename {} to {}: {}", part_, place_, std::strerror(errno)));
    }
    // The name is to outlive a power cut, for the old store may be removed next.
    const std::string above = fs::absolute(place_).parent_path();
    const UniqueFd folder(::open(above.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (folder.valid() && ::fsync(folder.get()) == 0) return {};
    return fail(fmt::format("cannot sync {}: {}", above, std::strerror(errno)));
  }

 private:
  std::string place_;
  std::string part_;
};

void show(const store::SalvageReport& found, Report& report) {
  report.fields["by_log"] = found.by_log;
  report.fields["by_part"] = found.by_part;
  report.fields["objects"] = found.objects;
  report.fields["chunks"] = found.chunks;
  report.fields["bad_chunks"] = found.bad_chunks;
  report.fields["lost_files"] = found.lost_files;
  report.fields["guesses"] = found.guesses;
  if (!report.json()) {
    for (const std::string& guess : found.guesses) print("guessed: {}\n", printable(guess));
    if (!report.speech().quiet) {
      print("copied {} in {}, {}\n", plural(found.objects, "object"), plural(found.chunks, "chunk"),
            found.by_part           ? "from what is left of the index: objects that no guess above "
                                      "names are exact"
            : !found.by_log         ? "rebuilt without the log: see the guesses above"
            : found.bad_chunks == 0 ? "from the log: names, sizes and contents are exact"
                                    : "from the log: names, sizes and undamaged contents "
                                      "are exact");
    }
  }
  if (found.bad_chunks > 0) {
    report.error(
        kDamaged, "damaged",
        fmt::format("{} damaged or missing and not copied", plural(found.bad_chunks, "chunk")));
  }
  if (found.lost_files > 0 && !found.by_log) {
    report.error(kDamaged, "damaged",
                 fmt::format("{} missing or cut off: see the guesses for what may be lost",
                             plural(found.lost_files, "file")));
  }
}

int salvage(const CheckOptions& options) {
  catch_interrupts();
  Report report("salvage", options.speech);
  const NewFolder to(options.words.back());
  StoreChoice old = options.store;
  const bool named = options.words.size() > 1;
  if (named && !old.folders.empty()) {
    report.error(kUsage, "invalid", "give the old store either by DIR or by --data");
    return report.finish();
  }
  if (named) old.folders.assign(options.words.begin(), options.words.end() - 1);
  const std::vector<std::string> from = folders_of(old);
  if (from.empty()) {
    report.error(kUsage, "invalid",
                 "the old store or NEW is missing: salvage DIR... NEW, or salvage --data DIR NEW");
    return report.finish();
  }
  if (const auto free = to.check(); !free) {
    report.error(kExists, "exists", free.error());
    return report.finish();
  }
  ProgressBar progress(report.shows_progress(), "salvage", 0);
  const auto found = store::salvage(from, {to.part()}, [&](uint64_t done, uint64_t all) {
    progress.update(done * store::kChunkBytes, all * store::kChunkBytes);
    return interrupted() == 0;
  });
  progress.clear();
  if (!found || interrupted() != 0) {
    to.discard();
    if (const int signal = interrupted(); signal != 0) {
      report.interrupted(signal, "interrupted; no new store was made");
    } else {
      report.error(found.error());
    }
    return report.finish();
  }
  if (const auto placed = to.finish(); !placed) {
    report.error(kNotDone, "io", placed.error());
    return report.finish();
  }
  show(*found, report);
  return report.finish();
}

}  // namespace

cli::Command scrub_command() {
  const auto options = std::make_shared<CheckOptions>();
  cli::Command command = describe("scrub", kAboutScrub);
  add_folder_words(command, options->store);
  add_folder_option(command, options->store);
  refuse_server(command, "also while the server runs");
  add_speech_options(command, options->speech, Shows::kSizes);
  add_progress_option(command, options->speech);
  return command.action([options] { return scrub(*options); });
}

cli::Command salvage_command() {
  const auto options = std::make_shared<CheckOptions>();
  cli::Command command = describe("salvage", kAboutSalvage);
  command.words("DIR", "[DIR...] NEW", options->words,
                "the directories of the old store, unless --data or the\n"
                "environment names them, then the new one");
  add_folder_option(command, options->store);
  refuse_server(command, "when the server has ended");
  add_speech_options(command, options->speech, Shows::kNothing);
  add_progress_option(command, options->speech);
  return command.action([options] { return salvage(*options); });
}

}  // namespace verbena::store_cli
