// SPDX-License-Identifier: Apache-2.0
// A new store from what is left of an old one: by its log where that can be read, otherwise from
// bare chunks, each of which says for which object it was written, and when.
#include <algorithm>
#include <filesystem>
#include <optional>

#include <fmt/format.h>

#include "store/directory.h"
#include "store/folder_shape.h"
#include "store/salvage_part.h"

namespace verbena::store {
namespace {

// Whether a folder, which may not be there yet, is another or lies below it.
bool lies_in(const std::string& folder, const std::string& other) {
  std::error_code ignored;
  const auto inner = std::filesystem::weakly_canonical(folder, ignored);
  const auto outer = std::filesystem::weakly_canonical(other, ignored);
  return std::ranges::mismatch(outer, inner).in1 == outer.end();
}

Result<void> by_log(SalvageCopy& copy, Store& from) {
  copy.report.by_log = true;
  const uint64_t all = from.space().used;
  const auto done = SalvageCopy::for_each(
      from, [&](const ObjectInfo& object) { return copy.bring(from, object, all); });
  if (done) copy.note_shared();
  return done;
}

void note_files(SalvageCopy& copy, const std::vector<Damage>& damage) {
  for (const Damage& one : damage) {
    ++copy.report.lost_files;
    copy.guess(fmt::format("{} is {}: the objects that had data there are named below", one.field,
                           one.actual));
  }
}

Result<void> from_chunks(SalvageCopy& copy, RawChunks& raw, const RawFindings& found) {
  copy.report.bad_chunks = found.bad;
  copy.guess(
      "the log cannot be read completely: objects are rebuilt from the readable records and the "
      "data chunks; changes recorded in the lost part, such as removals, may be undone");
  copy.report.lost_files = raw.lost().size();
  for (const std::string& lost : raw.lost()) {
    copy.guess(fmt::format("{}: data stored there is lost, and reads as zeros", lost));
  }
  if (!found.all_shared) {
    copy.guess(
        "objects share more chunks than can be traced without the log: some clones have zeros in "
        "place of shared data");
  }
  // What others have of a removed one is theirs.
  return copy.bring_found(raw, found,
                          [&](uint64_t number) { return !found.deleted.contains(number); });
}

}  // namespace

Result<SalvageReport> salvage(const std::vector<std::string>& from,
                              const std::vector<std::string>& to, const Progress& progress) {
  for (const std::string& new_one : to) {
    for (const std::string& old_one : from) {
      if (lies_in(new_one, old_one)) {
        return fail(Error{
            Code::kInvalid,
            fmt::format("{} is inside {}, which salvage does not change; choose another directory",
                        new_one, old_one),
            {}});
      }
    }
  }
  DirectoryOptions reading;
  reading.store.read_only = true;
  OpenReport opening;
  auto old = DirectoryStore::open(from, reading, &opening);
  const bool part = !old && old.error().code == Code::kDamaged;
  if (part) {
    reading.store.partial = true;
    opening = {};
    old = DirectoryStore::open(from, reading, &opening);
  }
  // Superblocks that are something else, or gone with their file, are no reason to give up.
  if (!old && old.error().code != Code::kDamaged && old.error().code != Code::kNoStore) {
    return fail(old.error());
  }
  std::optional<RawChunks> raw;
  if (!old || part) {
    auto opened = RawChunks::open(from);
    if (!opened) return fail(opened.error());
    raw = std::move(*opened);
  }
  auto made = DirectoryStore::create(to, {});
  if (!made) return fail(made.error());
  SalvageCopy copy(made->store(), progress);
  if (old) note_files(copy, opening.files);
  std::optional<RawFindings> found;
  if (raw) {
    auto scanned =
        raw->scan([&](uint64_t done, uint64_t all) { return copy.go_on(done, 2 * all); });
    if (!scanned) return fail(scanned.error());
    found = std::move(*scanned);
  }
  const auto done = !old   ? from_chunks(copy, *raw, *found)
                    : part ? SalvagePart(copy, old->store(), opening.lost, *raw, *found).run()
                           : by_log(copy, old->store());
  if (!done) return fail(done.error());
  if (const auto dropped = copy.drop_graves(); !dropped) return fail(dropped.error());
  copy.finish();
  if (const auto closed = made->store().close(); !closed) return fail(closed.error());
  return std::move(copy.report);
}

}  // namespace verbena::store
