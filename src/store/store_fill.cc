// SPDX-License-Identifier: Apache-2.0
// What is behind leaves, and comes back when it is wanted; objects that are only there are known
// here without their bytes.
#include <algorithm>

#include "store/crc_parts.h"
#include "store/store_impl.h"

namespace verbena::store {
namespace {

// Parts that are only behind, as runs: a count is a number of 32 bits.
std::vector<Run> runs_behind(uint64_t first, uint64_t end) {
  constexpr uint64_t kMost = UINT32_MAX;
  std::vector<Run> runs;
  while (first < end) {
    const uint64_t count = std::min(end - first, kMost);
    runs.push_back({first, 0, static_cast<uint32_t>(count), Held::kBehind, {}});
    first += count;
  }
  return runs;
}

struct Range {
  uint64_t first = 0;
  uint64_t end = 0;
};

}  // namespace

// Neighbours that are only behind are joined with it, so that their number stays small.
Result<uint64_t> StoreImpl::evict_range(Object& object, uint64_t first, uint64_t end) {
  const auto joined = [&](uint64_t index) VERBENA_REQUIRES_SHARED(object.lock) {
    const Run* const run = index < kMaxIndex ? object.table.find(index) : nullptr;
    return run != nullptr && run->index <= index && !run->has_chunks() ? run : nullptr;
  };
  if (const Run* const before = first > 0 ? joined(first - 1) : nullptr) first = before->index;
  if (const Run* const after = joined(end)) end = after->index + after->count;
  const auto runs = runs_behind(first, end);
  Scratch& scratch = Scratch::mine();
  object.table.prepare(first, end, runs, scratch.change);
  if (log_) {
    auto entry =
        log_->begin(runs.size() * kRunBytes + 2 * kMaxSmallBytes,
                    {growth_of(object, SegmentTable::growth(runs.size()))}, Log::Room::kPreferred);
    if (!entry) return fail(entry.error());
    (*entry)->map(object.number, object.size, runs);
    entry->commit(next_txn(), object.modified_ns);
  }
  const uint64_t chunks = object.table.chunks();
  apply(object, scratch.change);
  mark_dirty(object);
  return chunks - object.table.chunks();
}

Result<uint64_t> StoreImpl::evict(ObjectId id, uint64_t first, uint64_t count) {
  return attempt_to_free([&]() -> Result<uint64_t> {
    const auto found = find(id);
    if (!found) return fail(found.error());
    Object& object = **found;
    const WriteLock lock(object.lock);
    if (object.removed) return fail(no_such(id));
    // What lies together and is all there.
    std::vector<Range> ranges;
    const uint64_t end = count > kMaxIndex - std::min(first, kMaxIndex) ? kMaxIndex : first + count;
    object.table.for_each(first, end, [&](const Run& run) {
      if (run.held != Held::kBoth) return true;
      if (ranges.empty() || ranges.back().end != run.index) ranges.push_back({run.index, 0});
      ranges.back().end = run.index + run.count;
      return true;
    });
    uint64_t chunks = 0;
    for (const Range& range : ranges) {
      const auto gone = evict_range(object, range.first, range.end);
      if (!gone) return chunks > 0 ? Result<uint64_t>(chunks) : gone;
      chunks += *gone;
    }
    return chunks;
  });
}

// --- back again

struct PreparedFill::State {
  StoreImpl* store = nullptr;
  ObjectRef object;
  std::string name;
  uint64_t first = 0;
  uint64_t size = 0;
  uint64_t adopted = 0;
  uint64_t txn = 0;
  PlaceBehind base;
  std::vector<Piece> pieces;
  std::vector<Part> parts;

  State() = default;
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  // The reference that allocation gave; the object has its own.
  ~State() {
    for (const Piece& piece : pieces) store->space().drop(piece.chunk, piece.count);
  }
};

PreparedFill::PreparedFill() = default;
PreparedFill::PreparedFill(PreparedFill&&) noexcept = default;
PreparedFill& PreparedFill::operator=(PreparedFill&&) noexcept = default;
PreparedFill::~PreparedFill() = default;
const std::string& PreparedFill::name() const { return state_->name; }
ObjectId PreparedFill::id() const { return state_->object->id; }
const PlaceBehind& PreparedFill::base() const { return state_->base; }
uint64_t PreparedFill::first() const { return state_->first; }
std::span<PreparedFill::Part> PreparedFill::parts() { return state_->parts; }
Result<void> PreparedFill::commit(uint64_t version) {
  return state_->store->commit(*state_, version);
}

Result<PreparedFill> StoreImpl::prepare_fill(ObjectId id, uint64_t first, uint64_t count) {
  return attempt(0, [&]() -> Result<PreparedFill> {
    auto object = find(id);
    if (!object) return fail(object.error());
    PreparedFill prepared;
    prepared.state_ = std::make_unique<PreparedFill::State>();
    auto& state = *prepared.state_;
    state.store = this;
    {
      const Object& there = **object;
      const ReadLock lock(there.lock);
      if (there.removed) return fail(no_such(id));
      state.name = there.name;  // that of this base
      state.size = there.size;
      state.adopted = there.adopted;
      state.base = {there.behind, there.under};
      const uint64_t end = count > kMaxIndex - first ? kMaxIndex : first + count;
      count = 0;
      there.table.for_all(first, end, [&](const Run& run) {
        if (run.has_chunks()) return true;
        first = run.index;
        count = run.count;
        return false;
      });
    }
    state.first = first;
    state.object = std::move(*object);
    if (count == 0) return prepared;
    if (const auto got = space_.allocate(count, state.pieces); !got) return fail(got.error());
    state.txn = next_txn();
    state.parts.reserve(count);
    for (const Piece& piece : state.pieces) {
      if (const auto loaded = space_.load(piece.chunk, piece.count); !loaded) {
        return fail(loaded.error());
      }
      for (uint32_t i = 0; i < piece.count; ++i) {
        state.parts.push_back({space_.memory(piece.chunk + i), 0});
      }
    }
    return prepared;
  });
}

Result<void> StoreImpl::commit(PreparedFill::State& state, uint64_t version) {
  if (state.parts.empty()) return {};
  std::vector<Run> all;
  append_runs(*state.object, state.first, state.pieces, state.txn, all);
  for (Run& run : all) {
    run.held = Held::kBoth;
    for (uint32_t i = 0; i < run.count; ++i) {
      const uint64_t begin = (run.index + i) * kDataBytes;
      const uint64_t left = state.size > begin ? state.size - begin : 0;
      const PreparedFill::Part& part = state.parts[run.index + i - state.first];
      seal_data(part.bytes, run.chunk + i, {state.object->number, run.index + i, state.txn},
                static_cast<uint32_t>(std::min<uint64_t>(left, kDataBytes)), part.crc);
    }
  }
  persist_pieces(state.pieces);
  const uint64_t end = state.first + state.parts.size();
  return attempt(state.parts.size() * kDataBytes, [&]() -> Result<void> {
    Object& object = *state.object;
    const WriteLock lock(object.lock);
    if (object.removed || object.adopted != state.adopted) return {};
    if (!object.behind.may_be(version)) return {};
    std::vector<Range> ranges;
    object.table.for_all(state.first, end, [&](const Run& run) {
      if (!run.has_chunks()) ranges.push_back({run.index, run.index + run.count});
      return true;
    });
    for (const Range& range : ranges) {
      if (const auto done = fill_range(object, range.first, range.end, all); !done) return done;
    }
    return {};
  });
}

// Parts [first, end), which are only behind, have these chunks now.
Result<void> StoreImpl::fill_range(Object& object, uint64_t first, uint64_t end,
                                   std::span<const Run> all) {
  Scratch& scratch = Scratch::mine();
  scratch.runs.clear();
  for (const Run& run : all) {
    if (run.index >= end || run.index + run.count <= first) continue;
    scratch.runs.push_back(SegmentTable::clipped(run, first, end));
  }
  const uint64_t growth = SegmentTable::growth(scratch.runs.size());
  if (const auto room = room_for_runs(growth); !room) return room;
  object.table.prepare(first, end, scratch.runs, scratch.change);
  if (log_) {
    auto entry = log_->begin(scratch.runs.size() * kRunBytes + 2 * kMaxSmallBytes,
                             {growth_of(object, growth)});
    if (!entry) return fail(entry.error());
    (*entry)->map(object.number, object.size, scratch.runs);
    entry->commit(next_txn(), object.modified_ns);
  }
  for (const Run& run : scratch.runs) space_.add(run.chunk, run.count);
  apply(object, scratch.change);
  mark_dirty(object);
  return {};
}

// --- objects that are there

Result<void> StoreImpl::adopt(ObjectId id, std::string_view name, const AdoptedState& there) {
  if (!good_name(name)) return fail(bad_name());
  if (const auto fine = check_range(there.size, 0); !fine) return fine;
  return attempt(0, [&]() -> Result<void> {
    const ObjectRef object(new Object(next_number_.fetch_add(1), id, there.modified_ns));
    object->name = name;
    const WriteLock lock(object->lock);
    const auto runs = runs_behind(0, (there.size + kDataBytes - 1) / kDataBytes);
    const uint64_t growth = SegmentTable::growth(runs.size());
    if (const auto room = room_for_runs(growth); !room) return room;
    SegmentTable::Change change;
    object->table.prepare(0, kMaxIndex, runs, change);
    const Behind behind{.version = there.version, .whole = true};
    const WriteLock catalog(catalog_.lock());
    const auto added = add_object(object, (runs.size() + 1) * kRunBytes + 4 * kMaxSmallBytes,
                                  growth, [&](Log::Entry& entry) {
                                    entry->flushed({object->number, behind});
                                    entry->map(object->number, there.size, runs);
                                    entry.commit(next_txn(), there.modified_ns);
                                  });
    if (!added) return added;
    apply(*object, change);
    object->size = there.size;
    object->behind = behind;
    return {};
  });
}

// Another program has changed it there. What was only here would be lost: then it is refused.
Result<void> StoreImpl::adopt_again(ObjectId id, const AdoptedState& there) {
  if (const auto fine = check_range(there.size, 0); !fine) return fine;
  return attempt_to_free([&]() -> Result<void> {
    const auto found = find(id);
    if (!found) return fail(found.error());
    Object& object = **found;
    const WriteLock lock(object.lock);
    if (object.removed) return fail(no_such(id));
    if (!object.is_flushed() || object.under) {
      return fail(Error{Code::kConflict, "it was changed both here and behind the cache", {}});
    }
    const auto runs = runs_behind(0, (there.size + kDataBytes - 1) / kDataBytes);
    const uint64_t growth = SegmentTable::growth(runs.size());
    if (const auto room = room_for_runs(growth); !room) return room;
    SegmentTable::Change change;
    object.table.prepare(0, kMaxIndex, runs, change);
    const Behind behind{.version = there.version, .whole = true};
    if (log_) {
      auto entry = log_->begin((runs.size() + 1) * kRunBytes + 5 * kMaxSmallBytes,
                               {growth_of(object, growth)}, Log::Room::kPreferred);
      if (!entry) return fail(entry.error());
      (*entry)->truncate({object.number, 0});
      (*entry)->flushed({object.number, behind});
      if (!runs.empty()) {
        (*entry)->map(object.number, there.size, runs);
      }
      entry->commit(next_txn(), there.modified_ns);
    }
    apply(object, change);
    drop_content(object);
    object.size = there.size;
    object.modified_ns = there.modified_ns;
    object.behind = behind;
    ++object.reshaped;
    ++object.adopted;
    mark_dirty(object);
    return {};
  });
}

}  // namespace verbena::store
