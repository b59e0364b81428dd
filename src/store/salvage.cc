// SPDX-License-Identifier: Apache-2.0
// A new store from what is left of an old one: by its log where that can be read, otherwise from
// bare chunks, each of which says for which object it was written, and when.
#include <algorithm>
#include <filesystem>
#include <optional>

#include <fmt/format.h>

#include "store/directory.h"
#include "store/folder_shape.h"
#include "store/raw_chunks.h"
#include "store/record.h"

namespace verbena::store {
namespace {

constexpr size_t kPieceBytes = 256 * kDataBytes;
constexpr size_t kMaxGuesses = 1000;
// The high half of ids for objects whose own is another's.
constexpr uint64_t kInstead = 0x73616c7661676564;

// Whether a folder, which may not be there yet, is another or lies below it.
bool lies_in(const std::string& folder, const std::string& other) {
  std::error_code ignored;
  const auto inner = std::filesystem::weakly_canonical(folder, ignored);
  const auto outer = std::filesystem::weakly_canonical(other, ignored);
  return std::ranges::mismatch(outer, inner).in1 == outer.end();
}

class Salvage {
 public:
  Salvage(Store& to, const Progress& progress) : to_(to), progress_(progress) {}

  Result<void> by_log(Store& from) {
    report.by_log = true;
    const uint64_t all = from.space().used;
    std::optional<Cursor> after;
    for (;;) {
      const auto listed = from.list(after, 256);
      if (!listed) return fail(listed.error());
      const auto& page = *listed;
      for (const ObjectInfo& object : page) {
        if (const auto done = bring(from, object, all); !done) return done;
      }
      if (page.size() < 256) break;
      after = Cursor{page.back().name, page.back().id};
    }
    if (report.objects > 0)
      guess("chunks that were shared by objects are separate copies in the new store");
    return {};
  }

  Result<void> from_chunks(RawChunks& raw) {
    const auto found = raw.scan([&](uint64_t done, uint64_t all) { return go_on(done, 2 * all); });
    if (!found) return fail(found.error());
    report.bad_chunks = found->bad;
    guess(
        "the log cannot be read completely: objects are rebuilt from the readable records and the "
        "data chunks; changes recorded in the lost part, such as removals, may be undone");
    report.lost_files = raw.lost().size();
    for (const std::string& lost : raw.lost()) {
      guess(fmt::format("{}: data stored there is lost, and reads as zeros", lost));
    }
    if (!found->all_shared) {
      guess(
          "objects share more chunks than can be traced without the log: some clones have zeros in "
          "place of shared data");
    }
    for (const auto& [number, object] : found->objects) {
      if (found->deleted.contains(number)) continue;  // what others have of it is theirs
      if (const auto done = rebuild(raw, *found, number, object); !done) return done;
    }
    for (const auto& [number, content] : found->contents) {
      if (found->deleted.contains(number)) continue;
      const auto id = make(*found, number);
      if (!id) return fail(id.error());
      const auto* const bytes = reinterpret_cast<const uint8_t*>(content.data());
      if (const auto done = to_.write(*id, 0, {bytes, content.size()}); !done) return done;
      ++report.objects;
    }
    for (const auto& [number, known] : found->names) {
      if (found->objects.contains(number) || found->contents.contains(number) ||
          found->deleted.contains(number) || !known.id) {
        continue;
      }
      guess(fmt::format(
          "object {}{}{}{} is not in the new store: it was empty, or all its data is lost",
          text_of(*known.id), known.name.empty() ? "" : " '", known.name,
          known.name.empty() ? "" : "'"));
    }
    return {};
  }

  void note_files(const std::vector<Damage>& damage) {
    for (const Damage& one : damage) {
      ++report.lost_files;
      guess(fmt::format("{} is {}: the objects that had data there are named below", one.field,
                        one.actual));
    }
  }

  SalvageReport report;

 private:
  void guess(std::string what) {
    if (report.guesses.size() < kMaxGuesses) report.guesses.push_back(std::move(what));
  }
  [[nodiscard]] bool go_on(uint64_t done, uint64_t all) {
    return !progress_ || progress_(done, all);
  }
  static Result<void> stopped() { return fail(Error{Code::kInvalid, "stopped", {}}); }

  // Ranges of an object next to each other are one sentence.
  void note_lost(const ObjectInfo& object, uint64_t offset, uint64_t bytes) {
    if (lost_.object == object.id && lost_.offset + lost_.bytes == offset) {
      lost_.bytes += bytes;
      report.guesses.back() = sentence_of_lost();
      return;
    }
    lost_ = {object.id, object.name, offset, bytes};
    if (report.guesses.size() >= kMaxGuesses) {
      lost_ = {};
      return;
    }
    guess(sentence_of_lost());
  }
  [[nodiscard]] std::string sentence_of_lost() const {
    return fmt::format("object {}{}: {} bytes at offset {} were damaged and are now zeros",
                       text_of(lost_.object), lost_.name.empty() ? "" : " '" + lost_.name + "'",
                       lost_.bytes, lost_.offset);
  }

  // One object, segment by segment, so that holes stay holes.
  Result<void> bring(Store& from, const ObjectInfo& object, uint64_t all) {
    if (const auto made = to_.create_object(object.id, object.name); !made) return made;
    for (uint64_t offset = 0;;) {
      const auto segments = from.segments(object.id, offset, 64);
      if (!segments) return fail(segments.error());
      for (const SegmentInfo& segment : *segments) {
        const uint64_t end = std::min(segment.offset + segment.size, object.size);
        for (uint64_t at = segment.offset; at < end; at += kPieceBytes) {
          if (const auto done = bring_piece(from, object, at, std::min(end - at, kPieceBytes));
              !done) {
            return done;
          }
          if (!go_on(report.chunks, all)) return stopped();
        }
        offset = segment.offset + segment.size;
      }
      if (segments->size() < 64) break;
    }
    ++report.objects;
    return to_.truncate(object.id, object.size);
  }

  Result<void> bring_piece(Store& from, const ObjectInfo& object, uint64_t at, uint64_t length) {
    buffer_.resize(length);
    if (from.read(object.id, at, buffer_)) {
      report.chunks += (length + kDataBytes - 1) / kDataBytes;
      return to_.write(object.id, at, buffer_);
    }
    // Some of it is bad: what is not is brought over.
    for (uint64_t i = at; i < at + length; i += kDataBytes) {
      buffer_.resize(std::min<uint64_t>(kDataBytes, at + length - i));
      if (from.read(object.id, i, buffer_)) {
        ++report.chunks;
        if (const auto done = to_.write(object.id, i, buffer_); !done) return done;
      } else {
        ++report.bad_chunks;
        note_lost(object, i, buffer_.size());
      }
    }
    return {};
  }

  // A new object for one that was found, under its id and name if nobody has them.
  Result<ObjectId> make(const RawFindings& found, uint64_t number) {
    ObjectId id{0, number};
    std::string name;
    const auto known = found.names.find(number);
    if (known != found.names.end()) name = known->second.name;
    if (known != found.names.end() && known->second.id) {
      id = *known->second.id;
    } else {
      guess(fmt::format("the id of object number {} is not known; its new id is {}", number,
                        text_of(id)));
    }
    if (to_.stat(id)) {
      ObjectId instead{kInstead, number};
      while (to_.stat(instead)) ++instead.high;
      guess(fmt::format("two objects have the id {}; the second one is now {}", text_of(id),
                        text_of(instead)));
      id = instead;
    }
    if (!name.empty() && to_.find(name)) {
      guess(fmt::format("object {} has no name now: another object has its name '{}'", text_of(id),
                        name));
      name.clear();
    }
    if (const auto made = to_.create_object(id, name); !made) return fail(made.error());
    return id;
  }

  Result<void> rebuild(RawChunks& raw, const RawFindings& found, uint64_t number,
                       const RawHistory::Object& object) {
    const auto made = make(found, number);
    if (!made) return fail(made.error());
    const ObjectId id = *made;
    const uint64_t before_end = object.rbegin()->first + 1;
    if (before_end > object.size()) {
      guess(fmt::format(
          "object {}: {} of its first {} chunks were not found and are now zeros: they were holes "
          "or are lost",
          text_of(id), before_end - object.size(), before_end));
    }
    for (const auto& [index, chunk] : object) {
      const auto bytes = raw.data(chunk.number);
      if (!bytes) {
        ++report.bad_chunks;
        continue;
      }
      const auto done = to_.write(id, index * kDataBytes, bytes->first(chunk.length));
      if (!done) return done;
      ++report.chunks;
      if (!go_on(found.all + report.chunks, 2 * found.all)) return stopped();
    }
    ++report.objects;
    return {};
  }

  Store& to_;
  const Progress& progress_;
  std::vector<uint8_t> buffer_;
  struct Lost {
    ObjectId object;
    std::string name;
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };
  Lost lost_;  // what the last guess says, if it is of such
};

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
  // Superblocks that are something else, or gone with their file, are no reason to give up.
  if (!old && old.error().code != Code::kDamaged && old.error().code != Code::kNoStore) {
    return fail(old.error());
  }
  std::optional<RawChunks> raw;
  if (!old) {
    auto opened = RawChunks::open(from);
    if (!opened) return fail(opened.error());
    raw = std::move(*opened);
  }
  auto made = DirectoryStore::create(to, {});
  if (!made) return fail(made.error());
  Salvage work(made->store(), progress);
  if (old) work.note_files(opening.files);
  const auto done = raw ? work.from_chunks(*raw) : work.by_log(old->store());
  if (!done) return fail(done.error());
  if (const auto closed = made->store().close(); !closed) return fail(closed.error());
  return std::move(work.report);
}

}  // namespace verbena::store
