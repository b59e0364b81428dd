// SPDX-License-Identifier: Apache-2.0
// From behind to here, and out again.
#include <algorithm>

#include <fmt/format.h>

#include "cache/cache.h"

namespace verbena::cache {
namespace {

constexpr int kMaxTries = 4;
constexpr uint64_t kMaxParts = 64 * kSegmentParts;  // 16 MiB

}  // namespace

// What an operation needs may be much: it is fetched in pieces that fit.
uint64_t Cache::max_at_once() const {
  return std::clamp(max_chunks() / 4, kSegmentParts, kMaxParts);
}

// Whole segments.
Result<void> Cache::load(const store::Parts& parts) {
  const uint64_t first = parts.first / kSegmentParts;
  const uint64_t end = (parts.first + std::max<uint64_t>(parts.count, 1) - 1) / kSegmentParts + 1;
  const uint64_t count = std::min(end - first, max_at_once() / kSegmentParts);
  const Streams::Range range{.object = parts.object, .first = first, .count = count};
  const auto info = store_.stat(parts.object);
  if (!info) return fail(info.error());
  const bool more = (first + count) * kSegmentParts * store::kDataBytes < info->size;
  Claim claim;
  {
    const MutexLock lock(mutex_);
    if (find_loading(range) != nullptr) {
      // Who wants more than that comes again.
      while (find_loading(range) != nullptr) changed_.wait(mutex_);
      return {};
    }
    if (const auto ahead = more ? streams_.missed(range) : std::nullopt) want_ahead(*ahead);
    claim = claim_segments(range);
  }
  if (const auto loaded = load_segments(claim, Wanted::kNow); !loaded) return fail(loaded.error());
  return {};
}

// What another thread fetches, of which the first segment is.
const Streams::Range* Cache::find_loading(const Streams::Range& range) const {
  for (const Streams::Range& other : loading_) {
    if (other.object == range.object && other.first <= range.first &&
        range.first < other.first + other.count) {
      return &other;
    }
  }
  return nullptr;
}

void Cache::want_ahead(const Streams::Range& range) {
  if (reading_ == 0 || ahead_.size() == kMaxAhead) return;
  ahead_.push_back(range);
  ahead_changed_.notify_one();
}

void Cache::read_ahead() {
  for (;;) {
    Claim claim;
    {
      const MutexLock lock(mutex_);
      while (ahead_.empty() && !stopping_) ahead_changed_.wait(mutex_);
      if (stopping_) return;
      Streams::Range range = ahead_.front();
      ahead_.pop_front();
      // What others fetch is left to them.
      while (const Streams::Range* const other = find_loading(range)) {
        const uint64_t end = std::max(range.first + range.count, other->first + other->count);
        range.first = other->first + other->count;
        range.count = end - range.first;
      }
      if (range.count == 0) continue;
      claim = claim_segments(range);
    }
    // Who wants these parts is told what is wrong with them.
    if (load_segments(claim, Wanted::kPerhaps).value_or(0) > 0) count(Counter::kAheadLoads);
  }
}

// As far as nobody else fetches them.
Cache::Claim Cache::claim_segments(Streams::Range range) {
  for (const Streams::Range& other : loading_) {
    if (other.object != range.object || other.first < range.first) continue;
    range.count = std::min(range.count, other.first - range.first);
  }
  loading_.push_front(range);
  return {loading_.begin(), range};
}

// How many parts.
Result<uint64_t> Cache::load_segments(const Claim& claim, Wanted wanted) {
  struct Leave {
    Cache& cache;
    std::list<Streams::Range>::iterator place;
    ~Leave() {
      const MutexLock lock(cache.mutex_);
      cache.loading_.erase(place);
      cache.changed_.notify_all();
    }
  };
  const Leave leave{*this, claim.place};
  const ObjectId id = claim.range.object;
  const uint64_t first = claim.range.first * kSegmentParts;
  const uint64_t count = claim.range.count * kSegmentParts;
  auto fill = store_.prepare_fill(id, first, count);
  for (int round = 0; !fill && fill.error().code == store::Code::kFull && round < kMaxTries;
       ++round) {
    // For more than this: who needs two segments at once must not lose one for the other because
    // all else is unflushed.
    const uint64_t more = std::max(count, std::min(4 * count, max_chunks() / 4));
    const auto room = wanted == Wanted::kNow ? make_room(more) : make_some_room(count);
    if (!room) return fail(room.error());
    fill = store_.prepare_fill(id, first, count);
  }
  if (!fill) return fail(fill.error());
  if (fill->parts().empty()) return 0;
  const auto version = fetch(*fill, id);
  if (!version) return fail(version.error());
  if (*version == 0) return 0;  // it is another object now
  if (const auto done = fill->commit(*version); !done) {
    if (done.error().code != store::Code::kFull || wanted != Wanted::kNow) {
      return fail(done.error());
    }
    // The log has no room to say so. Who needs these parts comes again.
    fill = store::PreparedFill();
    if (const auto room = make_room(count); !room) return fail(room.error());
    return 0;
  }
  count_loaded(id, fill->first(), fill->parts().size());
  return fill->parts().size();
}

void Cache::count_loaded(ObjectId id, uint64_t first, uint64_t parts) {
  count(Counter::kLoads);
  count(Counter::kLoadedParts, parts);
  const MutexLock lock(mutex_);
  const uint64_t end = (first + parts - 1) / kSegmentParts + 1;
  for (uint64_t i = first / kSegmentParts; i < end; ++i) queue_.add({id, i});
}

// The version that they were read from; 0: it has changed meanwhile, or others have changed it and
// it was adopted anew.
Result<uint64_t> Cache::fetch(store::PreparedFill& fill, ObjectId id) {
  const store::PlaceBehind place = fill.base();
  const backend::Key key = place.under ? backend::Key{place.under->name, place.under->id}
                                       : backend::Key{fill.name(), id};
  std::vector<backend::PartToLoad> parts;
  parts.reserve(fill.parts().size());
  for (const auto& part : fill.parts()) parts.push_back({part.bytes, 0});
  uint64_t version = place.behind.version;
  for (int round = 0;; ++round) {
    const auto done = tier_.load(key, version, fill.first(), parts);
    if (done) break;
    const store::Code why = done.error().code;
    const bool other = why == store::Code::kConflict || why == store::Code::kNotFound;
    if (!other || round == kMaxTries) return fail(done.error());
    // A flush may have come to its end meanwhile, or others have changed it.
    const auto there = tier_.state(key);
    const auto now = store_.behind(id);
    if (!now) return fail(now.error());
    if (now->behind != place.behind || now->under != place.under) return 0;
    if (!there) return fail(there.error());
    if (place.behind.may_be(there->version)) {
      version = there->version;
      continue;
    }
    if (const auto adopted = changed_behind(id, *there); !adopted) return fail(adopted.error());
    return 0;
  }
  for (size_t i = 0; i < parts.size(); ++i) fill.parts()[i].crc = parts[i].crc;
  return version;
}

// What was prepared for the old state is then dropped, and whoever asked sees the new one.
Result<void> Cache::changed_behind(ObjectId id, const backend::State& there) {
  const auto adopted = store_.adopt_again(
      id, {.version = there.version, .size = there.size, .modified_ns = there.modified_ns});
  if (adopted) {
    count(Counter::kAdopted);
    return adopted;
  }
  return fail(Error{store::Code::kConflict,
                    fmt::format("object {}:{} was changed here and by another program in the {}; "
                                "remove one of the two",
                                id.high, id.low, tier_.describe()),
                    {}});
}

// --- room

uint64_t Cache::max_chunks() const {
  const uint64_t capacity = store_.space().capacity;
  return options_.max_chunks == 0 ? capacity : std::min(options_.max_chunks, capacity);
}

// There must be room for others too, and the thread keeps some free.
Result<void> Cache::check_fits(const store::ObjectInfo& object) const {
  const uint64_t most = max_chunks();
  if (object.behind == 0 || object.chunks + object.behind <= most - most / 4) return {};
  return fail(Error{store::Code::kUnsupported,
                    fmt::format("object '{}' is too large for the cache: it must be here as a "
                                "whole, but parts of it are only in the {}",
                                object.name, tier_.describe()),
                    {}});
}

uint64_t Cache::evict_some(uint64_t chunks) {
  uint64_t gone = 0;
  std::vector<Segment> kept;
  // Each of those that are there now at most once.
  size_t left = 0;
  {
    const MutexLock lock(mutex_);
    left = queue_.size();
  }
  for (; gone < chunks && left > 0; --left) {
    std::optional<Segment> segment;
    {
      const MutexLock lock(mutex_);
      segment = queue_.next();
    }
    if (!segment) break;
    const auto evicted =
        store_.evict(segment->object, segment->number * kSegmentParts, kSegmentParts);
    // What is not flushed comes again when it is.
    if (evicted) {
      gone += *evicted;
    } else if (evicted.error().code != store::Code::kNotFound) {
      kept.push_back(*segment);
    }
  }
  {
    const MutexLock lock(mutex_);
    for (const Segment& segment : kept) queue_.add(segment);
  }
  count(Counter::kEvictedChunks, gone);
  return gone;
}

// Chunks are free when it is durable that they are.
Result<void> Cache::free_evicted() {
  for (int round = 0; round < 2; ++round) {
    if (const auto durable = store_.flush(); !durable) return durable;
  }
  return {};
}

// For what is perhaps never wanted: nothing is flushed.
Result<void> Cache::make_some_room(uint64_t chunks) {
  if (evict_some(chunks) > 0) return free_evicted();
  return fail(Error{store::Code::kFull, "the cache is full of what is only here", {}});
}

Result<void> Cache::make_room(uint64_t chunks) {
  chunks = std::max(chunks, kSegmentParts);
  uint64_t gone = evict_some(chunks);
  if (gone < chunks) {
    // Only what is behind may leave.
    auto flushed = flush_all();
    gone += evict_some(chunks - gone);
    if (gone < chunks) {
      if (const auto drafts = flush_drafts(); !drafts && flushed) flushed = drafts;
      gone += evict_some(chunks - gone);
    }
    if (gone == 0 && !flushed) return flushed;
  }
  if (const auto durable = free_evicted(); !durable) return durable;
  const store::SpaceInfo space = store_.space();
  // Others may have made room meanwhile.
  if (gone > 0 || space.pending > 0 || space.free >= chunks) return {};
  return fail(Error{store::Code::kFull, "the cache is full, and nothing in it can leave", {}});
}

Result<uint64_t> Cache::evict(ObjectId id) {
  auto gone = store_.evict(id, 0, store::kMaxIndex);
  if (gone) count(Counter::kEvictedChunks, *gone);
  return gone;
}

uint64_t Cache::evict_all() { return evict_some(UINT64_MAX); }

void Cache::used(ObjectId id, uint64_t offset, uint64_t length) {
  constexpr uint64_t kSegmentBytes = kSegmentParts * store::kDataBytes;
  const uint64_t end = (offset + std::max<uint64_t>(length, 1) - 1) / kSegmentBytes + 1;
  const uint64_t first = offset / kSegmentBytes;
  const MutexLock lock(mutex_);
  for (uint64_t i = first; i < end; ++i) queue_.use({id, i});
  if (const auto ahead = streams_.used({id, first, end - first})) want_ahead(*ahead);
}

}  // namespace verbena::cache
