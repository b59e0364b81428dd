// SPDX-License-Identifier: Apache-2.0
// The new store that salvage fills: copies of objects of the old one, and objects from bare chunks;
// and what had to be guessed.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "store/directory.h"
#include "store/drafts.h"
#include "store/raw_chunks.h"

namespace verbena::store {

class SalvageCopy {
 public:
  SalvageCopy(Store& to, const Progress& progress) : to_(to), progress_(progress) {}

  [[nodiscard]] Store& to() { return to_; }
  void guess(std::string what) {
    lost_ = {};
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
  void finish() {
    if (unsaid_ > 0) report.guesses.push_back(fmt::format("and {} more like these", unsaid_));
  }

  [[nodiscard]] bool go_on(uint64_t done, uint64_t all) {
    return !progress_ || progress_(done, all);
  }
  static std::string label(const ObjectInfo& object) {
    return fmt::format("object {}{}", text_of(object.id),
                       object.name.empty() ? "" : " '" + object.name + "'");
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
  struct Lost {
    ObjectId object;
    std::string name;
    uint64_t offset = 0;
    uint64_t bytes = 0;
  };
  // Ranges of an object next to each other are one sentence.
  void note_lost(const ObjectInfo& object, uint64_t offset, uint64_t bytes) {
    if (lost_.object == object.id && lost_.offset + lost_.bytes == offset) {
      lost_.bytes += bytes;
      report.guesses.back() = sentence_of(lost_);
      return;
    }
    const Lost lost{object.id, object.name, offset, bytes};
    const bool said = report.guesses.size() < kMaxGuesses;
    guess(sentence_of(lost));
    if (said) lost_ = lost;
  }
  [[nodiscard]] static std::string sentence_of(const Lost& lost) {
    return fmt::format("object {}{}: {} bytes at offset {} were damaged and are now zeros",
                       text_of(lost.object), lost.name.empty() ? "" : " '" + lost.name + "'",
                       lost.bytes, lost.offset);
  }

  // One object, segment by segment, so that holes stay holes.
  Result<void> bring(Store& from, const ObjectInfo& object, uint64_t all) {
    if (const auto made = to_.create_object(object.id, object.name); !made) return made;
    if (object.behind > 0) {
      guess(
          fmt::format("{}: {} of its parts were not in the store, but only behind it as a cache, "
                      "and are now zeros",
                      label(object), object.behind));
    }
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
    if (object.behind > 0) {
      guess(fmt::format("object {}{}: {} bytes were only behind the cache and are now zeros",
                        text_of(object.id), object.name.empty() ? "" : " '" + object.name + "'",
                        object.behind * kDataBytes));
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

  // What a cache has noted to remove behind it. The new store does not know which of its objects
  // are only there, nor under which names: nothing may be removed there on its behalf.
  Result<void> drop_graves() {
    std::vector<ObjectId> graves;
    const auto listed = for_each(to_, [&](const ObjectInfo& object) -> Result<void> {
      if (object.id.high == kGraveHigh) graves.push_back(object.id);
      return {};
    });
    if (!listed) return listed;
    for (const ObjectId id : graves) {
      if (const auto removed = to_.remove(id); !removed) return removed;
      --report.objects;
    }
    return {};
  }

  SalvageReport report;

 private:
  static constexpr size_t kPieceBytes = 256 * kDataBytes;
  static constexpr size_t kMaxGuesses = 10'000;
  // The high half of ids for objects whose own is another's.
  static constexpr uint64_t kInstead = 0x73616c7661676564;

  static Result<void> stopped() { return fail(Error{Code::kInvalid, "stopped", {}}); }

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
  Lost lost_;  // what the last guess says, if it is of such
};

}  // namespace verbena::store
