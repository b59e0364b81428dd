// SPDX-License-Identifier: Apache-2.0
// A new store from what is left of an old one: by its log where that can be read, otherwise from
// bare chunks, each of which says for which object it was written, and when.
#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <set>

#include <fmt/format.h>

#include "store/directory.h"
#include "store/folder_shape.h"
#include "store/raw_chunks.h"
#include "store/record.h"

namespace verbena::store {
namespace {

constexpr size_t kPieceBytes = 256 * kDataBytes;
constexpr size_t kMaxGuesses = 10'000;
// The high half of ids of objects that are being written, which nobody misses.
constexpr uint64_t kDraft = ~uint64_t{0};
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
    const auto done =
        for_each(from, [&](const ObjectInfo& object) { return bring(from, object, all); });
    if (done) note_shared();
    return done;
  }

  // By what can be read of index and log; from bare chunks only what is lost there.
  Result<void> by_part(Store& from, const IndexLoss& lost, RawChunks& raw) {
    report.by_part = true;
    const auto found = raw.scan([&](uint64_t done, uint64_t all) { return go_on(done, 2 * all); });
    if (!found) return fail(found.error());
    note_lost_index(lost);
    report.bad_chunks = lost.chunks.size();
    const Part part{from, lost, raw, *found};
    std::set<uint64_t> known;
    const auto done = for_each(from, [&](const ObjectInfo& object) {
      known.insert(object.number);
      return bring_part(part, object);
    });
    if (!done) return done;
    note_shared();
    return bring_unknown(part, known);
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
    // What others have of a removed one is theirs.
    return bring_found(raw, *found,
                       [&](uint64_t number) { return !found->deleted.contains(number); });
  }

  void note_files(const std::vector<Damage>& damage) {
    for (const Damage& one : damage) {
      ++report.lost_files;
      guess(fmt::format("{} is {}: the objects that had data there are named below", one.field,
                        one.actual));
    }
  }

  void finish() {
    if (unsaid_ > 0) report.guesses.push_back(fmt::format("and {} more like these", unsaid_));
  }

  SalvageReport report;

 private:
  struct Part {
    Store& from;
    const IndexLoss& lost;
    RawChunks& raw;
    const RawFindings& found;
  };

  void guess(std::string what) {
    if (report.guesses.size() < kMaxGuesses) {
      report.guesses.push_back(std::move(what));
    } else {
      ++unsaid_;
    }
  }
  void note_shared() {
    if (report.objects > 0)
      guess("chunks that were shared by objects are separate copies in the new store");
  }
  template <typename Each>
  static Result<void> for_each(Store& from, const Each& each) {
    std::optional<Cursor> after;
    for (;;) {
      const auto page = from.list(after, 256);
      if (!page) return fail(page.error());
      for (const ObjectInfo& object : *page) {
        if (const auto done = each(object); !done) return done;
      }
      if (page->size() < 256) return {};
      after = Cursor{page->back().name, page->back().id};
    }
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

  static std::string label(const ObjectInfo& object) {
    return fmt::format("object {}{}", text_of(object.id),
                       object.name.empty() ? "" : " '" + object.name + "'");
  }

  void note_lost_index(const IndexLoss& lost) {
    for (size_t i = 0; i < lost.chunks.size(); i += 2) {
      const Damage& one = lost.chunks[i];
      guess(fmt::format("both copies of {} ({} of the store) are lost", one.expected,
                        fmt::format("chunks {} and {}", one.chunk, lost.chunks[i + 1].chunk)));
    }
    if (!lost.log.empty()) {
      guess(
          fmt::format("changes recorded in {} chunks of the log, from chunk {} on, are lost: also "
                      "objects that are not named below may be older, or may have been removed",
                      lost.log.size(), lost.log.front()));
    }
  }

  Result<void> bring_part(const Part& part, ObjectInfo object) {
    static const ObjectDoubt kNone;
    const ObjectDoubt* const found = part.lost.objects.find(object.number);
    const ObjectDoubt& doubt = found == nullptr ? kNone : *found;
    if (doubt.removed && (object.id.high == kDraft || part.found.deleted.contains(object.number))) {
      if (object.id.high != kDraft) {
        guess(label(object) +
              " is not in the new store: an old record says that it was removed, and whether it "
              "was is lost");
      }
      return {};
    }
    if (doubt.name) take_name(part, object);
    if (const auto done = bring(part.from, object, part.from.space().used); !done) return done;
    if (doubt.bytes) {
      if (const auto done = bring_bytes(part, object); !done) return done;
    } else if (!doubt.runs.empty()) {
      if (const auto done = bring_runs(part, object, doubt.runs); !done) return done;
    }
    if (!part.lost.log.empty()) {
      if (const auto done = bring_newer(part, object); !done) return done;
    }
    if (doubt.removed) {
      guess(label(object) + " may have been removed: what was recorded of it last is lost");
    }
    if (doubt.older) {
      guess(label(object) +
            " may have other bytes or another name: what was recorded of it last "
            "is lost");
    }
    return {};
  }

  void take_name(const Part& part, ObjectInfo& object) {
    const auto known = part.found.names.find(object.number);
    std::string name = known == part.found.names.end() ? "" : known->second.name;
    if (!name.empty() && (part.from.find(name) || to_.find(name))) name.clear();
    guess(fmt::format("{}: its name is lost; it has {} now", label(object),
                      name.empty() ? "none" : "the older name '" + name + "'"));
    object.name = std::move(name);
  }

  // Few bytes that were in the index: what older records say, or chunks from before that.
  Result<void> bring_bytes(const Part& part, const ObjectInfo& object) {
    const auto content = part.found.contents.find(object.number);
    if (content != part.found.contents.end()) {
      guess(
          fmt::format("{}: its bytes are lost; it has {} bytes of an older record now, which may "
                      "be the same",
                      label(object), content->second.size()));
      const auto* const bytes = reinterpret_cast<const uint8_t*>(content->second.data());
      return to_.write(object.id, 0, {bytes, content->second.size()});
    }
    const auto chunks = part.found.objects.find(object.number);
    if (chunks == part.found.objects.end()) {
      guess(label(object) + " is empty now: it was empty, or its bytes are lost");
      return {};
    }
    guess(label(object) + ": its bytes are lost; it has those of older chunks now");
    for (const auto& [index, chunk] : chunks->second) {
      if (const auto done = bring_chunk(part, object, index, chunk, kMaxSize); !done) return done;
    }
    return {};
  }

  Result<void> bring_chunk(const Part& part, const ObjectInfo& object, uint64_t index,
                           const RawHistory::Chunk& chunk, uint64_t size) {
    const uint64_t offset = index * kDataBytes;
    if (offset >= size) return {};
    const auto bytes = part.raw.data(chunk.number);
    if (!bytes) {
      ++report.bad_chunks;
      note_lost(object, offset, std::min<uint64_t>(kDataBytes, size - offset));
      return {};
    }
    ++report.chunks;
    return to_.write(object.id, offset,
                     bytes->first(std::min<uint64_t>(chunk.length, size - offset)));
  }

  // Chunks of which the index does not say any more where they are say themselves whose they are.
  Result<void> bring_runs(const Part& part, const ObjectInfo& object,
                          const std::vector<NumberRange>& runs) {
    uint64_t all = 0;
    uint64_t there = 0;
    const auto chunks = part.found.objects.find(object.number);
    const uint64_t end = (object.size + kDataBytes - 1) / kDataBytes;
    for (const NumberRange& range : runs) {
      if (range.first >= end) continue;
      all += std::min(end, range.end) - range.first;
      if (chunks == part.found.objects.end()) continue;
      for (auto at = chunks->second.lower_bound(range.first);
           at != chunks->second.end() && at->first < std::min(end, range.end); ++at) {
        ++there;
        const auto done = bring_chunk(part, object, at->first, at->second, object.size);
        if (!done) return done;
      }
    }
    guess(
        fmt::format("{}: where {} of its chunks are is lost; {} were found by what chunks say of "
                    "themselves, and may be older; the others are zeros now: holes, or lost",
                    label(object), all, there));
    return {};
  }

  // What was written when that part of the log was that is lost.
  Result<void> bring_newer(const Part& part, const ObjectInfo& object) {
    const auto chunks = part.found.objects.find(object.number);
    if (chunks == part.found.objects.end()) return {};
    std::map<uint64_t, uint64_t> mapped;  // transactions by index
    for (uint64_t offset = 0;;) {
      const auto segments = part.from.segments(object.id, offset, 64);
      if (!segments) return fail(segments.error());
      for (const SegmentInfo& segment : *segments) {
        for (uint32_t i = 0; i < segment.count; ++i) {
          mapped[segment.offset / kDataBytes + i] = segment.birth.txn;
        }
        offset = segment.offset + segment.size;
      }
      if (segments->size() < 64) break;
    }
    uint64_t count = 0;
    for (const auto& [index, chunk] : chunks->second) {
      const auto now = mapped.find(index);
      const uint64_t txn = now == mapped.end() ? 0 : now->second;
      if (chunk.txn <= std::max(txn, part.lost.from_txn)) continue;
      ++count;
      if (const auto done = bring_chunk(part, object, index, chunk, kMaxSize); !done) return done;
    }
    if (count > 0) {
      guess(
          fmt::format("{}: {} chunks were written when the lost part of the log was, and are "
                      "taken for its own",
                      label(object), count));
    }
    return {};
  }

  // Objects that were found by their chunks alone.
  Result<void> bring_unknown(const Part& part, const std::set<uint64_t>& known) {
    const auto is_unknown = [&](uint64_t number) {
      return !known.contains(number) && !part.found.deleted.contains(number) &&
             std::ranges::any_of(part.lost.unknown, [&](const NumberRange& range) {
               return number >= range.first && number < range.end;
             });
    };
    return bring_found(part.raw, part.found, is_unknown);
  }

  template <typename Which>
  Result<void> bring_found(RawChunks& raw, const RawFindings& found, const Which& which) {
    for (const auto& [number, object] : found.objects) {
      if (!which(number)) continue;
      if (const auto done = rebuild(raw, found, number, object); !done) return done;
    }
    for (const auto& [number, content] : found.contents) {
      if (!which(number)) continue;
      const auto id = make(found, number);
      if (!id) return fail(id.error());
      const auto* const bytes = reinterpret_cast<const uint8_t*>(content.data());
      if (const auto done = to_.write(*id, 0, {bytes, content.size()}); !done) return done;
      ++report.objects;
    }
    for (const auto& [number, known] : found.names) {
      if (found.objects.contains(number) || found.contents.contains(number) || !which(number) ||
          !known.id) {
        continue;
      }
      guess(fmt::format(
          "object {}{}{}{} is not in the new store: it was empty, or all its data is lost",
          text_of(*known.id), known.name.empty() ? "" : " '", known.name,
          known.name.empty() ? "" : "'"));
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
  uint64_t unsaid_ = 0;  // guesses
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
  Salvage work(made->store(), progress);
  if (old) work.note_files(opening.files);
  const auto done = !old   ? work.from_chunks(*raw)
                    : part ? work.by_part(old->store(), opening.lost, *raw)
                           : work.by_log(old->store());
  if (!done) return fail(done.error());
  work.finish();
  if (const auto closed = made->store().close(); !closed) return fail(closed.error());
  return std::move(work.report);
}

}  // namespace verbena::store
