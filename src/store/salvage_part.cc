// SPDX-License-Identifier: Apache-2.0
#include "store/salvage_part.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "store/record.h"

namespace verbena::store {
namespace {

// The high half of ids of objects that are being written, which nobody misses.
constexpr uint64_t kDraft = ~uint64_t{0};

}  // namespace

Result<void> SalvagePart::run() {
  note_lost_index();
  copy_.report.by_part = true;
  copy_.report.bad_chunks = lost_.chunks.size();
  std::set<uint64_t> known;
  const auto done = SalvageCopy::for_each(from_, [&](const ObjectInfo& object) {
    known.insert(object.number);
    return bring(object);
  });
  if (!done) return done;
  copy_.note_shared();
  return bring_unknown(known);
}

void SalvagePart::note_lost_index() {
  for (size_t i = 0; i < lost_.chunks.size(); i += 2) {
    const Damage& one = lost_.chunks[i];
    copy_.guess(fmt::format("both copies of {} ({} of the store) are lost", one.expected,
                            fmt::format("chunks {} and {}", one.chunk, lost_.chunks[i + 1].chunk)));
  }
  for (const NumberRange& range : lost_.log) {
    copy_.guess(
        fmt::format("changes recorded in {} chunks of the log, from chunk {} on, are lost: also "
                    "objects that are not named below may be older, or may have been removed",
                    range.end - range.first, range.first));
  }
}

Result<void> SalvagePart::bring(ObjectInfo object) {
  static const ObjectDoubt kNone;
  const ObjectDoubt* const found = lost_.objects.find(object.number);
  const ObjectDoubt& doubt = found == nullptr ? kNone : *found;
  if (doubt.removed && (object.id.high == kDraft || found_.deleted.contains(object.number))) {
    if (object.id.high != kDraft) {
      copy_.guess(
          SalvageCopy::label(object) +
          " is not in the new store: an old record says that it was removed, and whether it "
          "was is lost");
    }
    return {};
  }
  if (doubt.name) take_name(object);
  if (const auto done = copy_.bring(from_, object, from_.space().used); !done) return done;
  if (doubt.bytes) {
    if (const auto done = bring_bytes(object); !done) return done;
  } else if (!doubt.runs.empty()) {
    if (const auto done = bring_runs(object, doubt.runs); !done) return done;
  }
  if (!lost_.log.empty()) {
    if (const auto done = bring_newer(object); !done) return done;
  }
  if (doubt.removed) {
    copy_.guess(SalvageCopy::label(object) +
                " may have been removed: what was recorded of it last is lost");
  }
  if (doubt.older) {
    copy_.guess(SalvageCopy::label(object) +
                " may have other bytes or another name: what was recorded of it last "
                "is lost");
  }
  return {};
}

void SalvagePart::take_name(ObjectInfo& object) {
  const auto known = found_.names.find(object.number);
  std::string name = known == found_.names.end() ? "" : known->second.name;
  if (!name.empty() && (from_.find(name) || copy_.to().find(name))) name.clear();
  copy_.guess(fmt::format("{}: its name is lost; it has {} now", SalvageCopy::label(object),
                          name.empty() ? "none" : "the older name '" + name + "'"));
  object.name = std::move(name);
}

// Few bytes that were in the index: what older records say, or chunks from before that.
Result<void> SalvagePart::bring_bytes(const ObjectInfo& object) {
  const auto content = found_.contents.find(object.number);
  if (content != found_.contents.end()) {
    copy_.guess(
        fmt::format("{}: its bytes are lost; it has {} bytes of an older record now, which may "
                    "be the same",
                    SalvageCopy::label(object), content->second.size()));
    const auto* const bytes = reinterpret_cast<const uint8_t*>(content->second.data());
    return copy_.to().write(object.id, 0, {bytes, content->second.size()});
  }
  const auto chunks = found_.objects.find(object.number);
  if (chunks == found_.objects.end()) {
    copy_.guess(SalvageCopy::label(object) + " is empty now: it was empty, or its bytes are lost");
    return {};
  }
  copy_.guess(SalvageCopy::label(object) +
              ": its bytes are lost; it has those of older chunks now");
  for (const auto& [index, chunk] : chunks->second) {
    if (const auto done = bring_chunk(object, index, chunk, kMaxSize); !done) return done;
  }
  return {};
}

Result<void> SalvagePart::bring_chunk(const ObjectInfo& object, uint64_t index,
                                      const RawHistory::Chunk& chunk, uint64_t size) {
  const uint64_t offset = index * kDataBytes;
  if (offset >= size) return {};
  const auto bytes = raw_.data(chunk.number);
  if (!bytes) {
    ++copy_.report.bad_chunks;
    copy_.note_lost(object, offset, std::min<uint64_t>(kDataBytes, size - offset));
    return {};
  }
  ++copy_.report.chunks;
  return copy_.to().write(object.id, offset,
                          bytes->first(std::min<uint64_t>(chunk.length, size - offset)));
}

// Chunks of which the index does not say any more where they are say themselves whose they are.
Result<void> SalvagePart::bring_runs(const ObjectInfo& object,
                                     const std::vector<NumberRange>& runs) {
  uint64_t all = 0;
  uint64_t there = 0;
  const auto chunks = found_.objects.find(object.number);
  const uint64_t end = (object.size + kDataBytes - 1) / kDataBytes;
  for (const NumberRange& range : runs) {
    if (range.first >= end) continue;
    all += std::min(end, range.end) - range.first;
    if (chunks == found_.objects.end()) continue;
    for (auto at = chunks->second.lower_bound(range.first);
         at != chunks->second.end() && at->first < std::min(end, range.end); ++at) {
      ++there;
      const auto done = bring_chunk(object, at->first, at->second, object.size);
      if (!done) return done;
    }
  }
  copy_.guess(
      fmt::format("{}: where {} of its chunks are is lost; {} were found by what chunks say of "
                  "themselves, and may be older; the others are zeros now: holes, or lost",
                  SalvageCopy::label(object), all, there));
  return {};
}

// What was written when that part of the log was that is lost.
Result<void> SalvagePart::bring_newer(const ObjectInfo& object) {
  const auto chunks = found_.objects.find(object.number);
  if (chunks == found_.objects.end()) return {};
  std::map<uint64_t, uint64_t> mapped;  // transactions by index
  for (uint64_t offset = 0;;) {
    const auto segments = from_.segments(object.id, offset, 64);
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
    if (chunk.txn <= std::max(txn, lost_.from_txn)) continue;
    ++count;
    if (const auto done = bring_chunk(object, index, chunk, kMaxSize); !done) return done;
  }
  if (count > 0) {
    copy_.guess(
        fmt::format("{}: {} chunks were written when the lost part of the log was, and are "
                    "taken for its own",
                    SalvageCopy::label(object), count));
  }
  return {};
}

// Objects that were found by their chunks alone.
Result<void> SalvagePart::bring_unknown(const std::set<uint64_t>& known) {
  std::vector<NumberRange> unknown = lost_.unknown;
  std::ranges::sort(unknown, {}, &NumberRange::first);
  for (size_t i = 1; i < unknown.size(); ++i) {
    unknown[i].end = std::max(unknown[i].end, unknown[i - 1].end);
  }
  const auto is_unknown = [&](uint64_t number) {
    const auto behind = std::ranges::upper_bound(unknown, number, {}, &NumberRange::first);
    return behind != unknown.begin() && number < std::prev(behind)->end &&
           !known.contains(number) && !found_.deleted.contains(number);
  };
  return copy_.bring_found(raw_, found_, is_unknown);
}

}  // namespace verbena::store
