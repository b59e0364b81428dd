// SPDX-License-Identifier: Apache-2.0
// `verbena sync`: the objects behind a prefix become what the files of a directory are.
#include <algorithm>
#include <memory>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "store/crc_parts.h"
#include "store/folder_shape.h"
#include "store_cli/commands.h"
#include "store_cli/find_object.h"
#include "store_cli/input_file.h"
#include "store_cli/interrupts.h"
#include "store_cli/object_data.h"
#include "store_cli/opening.h"
#include "store_cli/print.h"
#include "store_cli/put_session.h"
#include "store_cli/tree.h"

namespace verbena::store_cli {
namespace {

constexpr const char* kAboutSync =
    R"text(Stores the files that are new or differ in size or CRC; others are left alone. The comparison reads
the files and the stored CRCs, and others may read the store meanwhile.

  verbena sync --data /srv/store pictures photos                     pictures/1.jpg as photos/1.jpg
  verbena sync --data /srv/store --delete --dry-run pictures photos  what it would do
)text";

struct SyncOptions {
  StoreChoice store;
  Speech speech;
  std::string folder;
  std::string prefix;
  bool remove = false;
  bool dry_run = false;
};

struct Plan {
  std::vector<const TreeFile*> put;
  std::vector<std::string> remove;  // names
  uint64_t unchanged = 0;
  uint64_t bytes = 0;  // to be put
};

[[nodiscard]] Result<uint32_t, std::string> file_crc(InputFile& input, ProgressBar& bar,
                                                     uint64_t& compared) {
  constexpr size_t kPiece = 1 << 20;
  const auto buffer = std::make_unique_for_overwrite<uint8_t[]>(kPiece);
  uint32_t crc = store::crc_of_zeros(0);
  for (;;) {
    const auto got = input.fill({buffer.get(), kPiece});
    if (!got) return fail(got.error());
    crc = store::crc_join(crc, store::crc_of({buffer.get(), *got}), *got);
    compared += *got;
    bar.update(compared);
    if (*got < kPiece) return crc;
  }
}

class Comparison {
 public:
  Comparison(const store::Objects& store, const Tree& tree, const std::string& prefix,
             Report& report)
      : store_(store),
        tree_(tree),
        prefix_(prefix),
        report_(report),
        bar_(report.shows_progress(), "compare", 0) {}

  // As far as no signal came, and the server answered.
  [[nodiscard]] Plan run(bool remove) {
    Plan plan;
    std::set<std::string> names;
    for (const TreeFile& file : tree_.files) {
      if (interrupted() != 0 || report_.unreachable()) return plan;
      const std::string name = prefix_ + file.relative;
      names.insert(name);
      if (is_same(file, name)) {
        ++plan.unchanged;
      } else {
        plan.put.push_back(&file);
        plan.bytes += file.size;
      }
    }
    if (!remove) return plan;
    const auto listed = each_object(store_, prefix_, [&](const store::ObjectInfo& object) {
      if (!object.name.empty() && !names.contains(object.name)) plan.remove.push_back(object.name);
      return true;
    });
    if (!listed) {
      report_.error(listed.error(), prefix_);
      plan.remove.clear();
    }
    return plan;
  }

 private:
  // What cannot be compared is not the same: putting it says why.
  [[nodiscard]] bool is_same(const TreeFile& file, const std::string& name) {
    const auto object = parse_object(name);
    if (!object || !std::holds_alternative<std::string>(*object)) return false;
    const auto found = look_up(store_, *object);
    note_unreachable(found, name);
    if (!found || !found->has_value() || (*found)->size != file.size) return false;
    auto input = InputFile::open(file.path);
    if (!input || input->is_stream()) return false;
    const auto stored = object_crc(store_, **found, [](uint64_t) { return interrupted() == 0; });
    note_unreachable(stored, name);
    const auto actual = file_crc(*input, bar_, compared_);
    return stored && actual && *stored == *actual;
  }

  void note_unreachable(const auto& result, const std::string& name) {
    if (!result && result.error().code == store::Code::kUnreachable) {
      bar_.clear();
      report_.error(result.error(), name);
    }
  }

  const store::Objects& store_;
  const Tree& tree_;
  const std::string& prefix_;
  Report& report_;
  ProgressBar bar_;
  uint64_t compared_ = 0;
};

// Without a store everything is new.
[[nodiscard]] std::optional<Plan> compare(const SyncOptions& options, const Tree& tree,
                                          const std::string& prefix, Report& report) {
  const std::vector<std::string> folders = folders_of(options.store);
  const bool none = place_of(options.store) == Place::kDirectory &&
                    std::ranges::none_of(folders, [](const std::string& folder) {
                      const auto holds = store::holds_store(folder);
                      return !holds || *holds;
                    });
  if (none) {
    Plan plan;
    for (const TreeFile& file : tree.files) {
      plan.put.push_back(&file);
      plan.bytes += file.size;
    }
    return plan;
  }
  auto opened = open_objects(options.store, Need::kRead, report);
  if (!opened) return std::nullopt;
  return Comparison(opened->objects(), tree, prefix, report).run(options.remove);
}

void show(const Plan& plan, const std::string& prefix, const SyncOptions& options, Report& report) {
  auto put = nlohmann::ordered_json::array();
  for (const TreeFile* const file : plan.put) {
    put.push_back(prefix + file->relative);
    if (!report.json() && !options.speech.quiet) {
      print("put     {}\n", printable(prefix + file->relative));
    }
  }
  for (const std::string& name : plan.remove) {
    if (!report.json() && !options.speech.quiet) print("remove  {}\n", printable(name));
  }
  report.fields["dry_run"] = options.dry_run;
  report.fields["put"] = std::move(put);
  report.fields["removed"] = plan.remove;
  report.fields["unchanged"] = plan.unchanged;
}

// What is there now is removed first: a full store may need the room.
void apply(const Plan& plan, const std::string& prefix, const SyncOptions& options,
           Report& report) {
  ProgressBar bar(report.shows_progress(), "sync", plan.bytes);
  PutSession session(options.store, bar, report);
  if (!session.open()) return;
  for (const std::string& name : plan.remove) {
    const auto id = session.store().find(name);
    if (!id && id.error().code == store::Code::kNotFound) continue;  // somebody else has
    const auto gone = id ? session.store().remove(*id) : store::Result<void>(fail(id.error()));
    if (!gone) report.error(gone.error(), name);
    if (report.unreachable()) break;
  }
  for (const TreeFile* const file : plan.put) {
    if (report.unreachable() || !session.put(file->path, prefix + file->relative, false)) break;
  }
  session.close();
  report.fields["bytes_written"] = session.bytes();
}

int sync(const SyncOptions& options) {
  catch_interrupts();
  Report report("sync", options.speech);
  if (!check_choice(options.store, report)) return report.finish();
  const auto tree = list_tree(options.folder);
  if (!tree) {
    report.error(kNotDone, "io", tree.error());
    return report.finish();
  }
  tell_problems(*tree, report);
  const std::string prefix = as_prefix(options.prefix);
  // A directory that cannot be read is not one whose files are gone.
  SyncOptions careful = options;
  if (!tree->problems.empty() && options.remove) {
    report.note("nothing is removed, because some directories cannot be read");
    careful.remove = false;
  }
  const auto plan = compare(careful, *tree, prefix, report);
  if (const int signal = interrupted(); signal != 0) {
    report.interrupted(signal, "interrupted; nothing was changed");
    return report.finish();
  }
  if (!plan || report.unreachable()) return report.finish();
  show(*plan, prefix, options, report);
  const bool anything = !plan->put.empty() || !plan->remove.empty();
  if (anything && !options.dry_run) apply(*plan, prefix, options, report);
  report.note(fmt::format("{} to put, {} to remove, {} unchanged{}", plan->put.size(),
                          plan->remove.size(), plan->unchanged,
                          options.dry_run ? "; nothing was changed" : ""));
  return report.finish();
}

}  // namespace

cli::Command sync_command() {
  const auto options = std::make_shared<SyncOptions>();
  cli::Command command = describe("sync", kAboutSync);
  command.word("DIR", options->folder, "directory whose files are stored")
      .word("PREFIX", options->prefix, "objects are named PREFIX/PATH");
  add_store_options(command, options->store);
  command.flag("--delete", options->remove, "remove objects below PREFIX/ that have no file in DIR")
      .flag("--dry-run", options->dry_run, "only print what would be done");
  add_writing_options(command, options->store);
  add_speech_options(command, options->speech, Shows::kNothing);
  add_progress_option(command, options->speech);
  return command.action([options] { return sync(*options); });
}

}  // namespace verbena::store_cli
