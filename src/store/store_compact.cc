// SPDX-License-Identifier: Apache-2.0
// Compaction: chunks at the end of the medium move to free ones before, and the files behind them
// go back to the system.
//
//   before   | 0 1 log | A . B . . | . . C . | . . . D |        limit: what all of it would fit in
//   after    | 0 1 log | A C B D . |
//
// A chunk that moves keeps its birth: only its number changes, and with it the CRC over the
// metadata. So it is the same chunk for every object that shares it. What moves it is a transaction
// like a write, of one object each, and the old chunk is free when any other would be. A crash
// leaves some where they were.
//
// Everything else goes on: chunks are pinned while they are copied, which may wait for the medium,
// and an object is locked while a record of its new runs goes into the log. A clone that is made of
// an object in between keeps the old chunks, and gets others when its turn comes.
#include <algorithm>

#include "store/chunk_check.h"
#include "store/crc_parts.h"
#include "store/store_impl.h"

namespace verbena::store {
namespace {

constexpr uint64_t kAtOnce = 256;       // chunks
constexpr size_t kRunsAtOnce = 4096;    // that are looked at while writers of the object wait
constexpr size_t kObjectsAtOnce = 256;  // and objects, before others are asked whether to go on
constexpr size_t kMaxSharers = 4096;    // of overlapping runs, beyond which they stay
constexpr size_t kMaxReported = 1000;
constexpr int kMaxRounds = 3;  // what writers leave behind the limit meanwhile is found by the next

}  // namespace

class StoreImpl::Compaction {
 public:
  Compaction(StoreImpl& store, const Progress& progress, uint32_t limit)
      : store_(store), progress_(progress), limit_(limit) {}

  Result<void> run() {
    for (int round = 0; round < kMaxRounds && report.whole; ++round) {
      collect();
      if (items_.empty()) break;
      if (const auto done = move_all(); !done) return done;
    }
    return {};
  }

  CompactReport report;

 private:
  struct Item {
    ObjectRef object;
    Run run;
    bool pinned = false;
  };

  bool goes_on() {
    if (progress_ && !progress_(chunks_done_, chunks_)) report.whole = false;
    return report.whole;
  }

  Result<void> move_all() {
    for (size_t at = 0; at < items_.size();) {
      if (!goes_on()) return {};
      const size_t end = batch_end(at);
      const auto batch = std::span(items_).subspan(at, end - at);
      const auto moved = move(batch);
      if (!moved && moved.error().code == Code::kFull) {
        report.whole = false;
        return {};
      }
      if (!moved) return moved;
      for (const Item& item : batch) chunks_done_ += item.run.count;
      at = end;
    }
    return {};
  }

  void collect() {
    items_.clear();
    look_from_ = 0;
    std::optional<Cursor> after;
    for (size_t found = kObjectsAtOnce; found == kObjectsAtOnce && goes_on();) {
      const auto page = store_.catalog_.page(after, kObjectsAtOnce, &after);
      for (const ObjectRef& object : page) collect_from(object);
      found = page.size();
    }
    std::ranges::sort(items_, {}, [](const Item& item) { return item.run.chunk; });
  }

  void collect_from(const ObjectRef& object) {
    for (uint64_t next = 0; next < kMaxIndex;) {
      const ReadLock lock(object->lock);
      size_t seen = 0;
      uint64_t behind = kMaxIndex;
      object->table.for_each(next, kMaxIndex, [&](const Run& run) {
        if (seen++ == kRunsAtOnce) {
          behind = run.index;
          return false;
        }
        if (run.chunk / store_.space_.chunks_per_block() >= limit_) {
          items_.push_back({object.share(), run, false});
          chunks_ += run.count;
        }
        return true;
      });
      next = behind;
    }
  }

  // Those that share chunks move together, so that they share them afterwards.
  [[nodiscard]] size_t batch_end(size_t at) const {
    uint64_t chunks = 0;
    uint64_t behind = 0;
    for (; at < items_.size(); ++at) {
      const Run& run = items_[at].run;
      if (chunks >= kAtOnce && run.chunk >= behind) break;
      const uint64_t end = run.chunk + run.count;
      if (end > behind) chunks += end - std::max(behind, run.chunk);
      behind = std::max(behind, end);
    }
    return at;
  }

  [[nodiscard]] static bool is_still_so(const Object& object, const Run& run)
      VERBENA_REQUIRES_SHARED(object.lock) {
    if (object.removed) return false;
    bool same = false;
    object.table.for_each(run.index, run.index + run.count, [&](const Run& there) {
      same = there == run;
      return false;
    });
    return same;
  }

  // Chunks of the objects that still have them stay as they are until this is gone.
  struct Pins {
    Space& space;
    std::span<Item> items;
    Pins(Space& its_space, std::span<Item> its_items) : space(its_space), items(its_items) {
      for (Item& item : items) {
        const ReadLock lock(item.object->lock);
        item.pinned = is_still_so(*item.object, item.run);
        if (item.pinned) space.add(item.run.chunk, item.run.count);
      }
    }
    Pins(const Pins&) = delete;
    Pins& operator=(const Pins&) = delete;
    ~Pins() {
      for (Item& item : items) {
        if (std::exchange(item.pinned, false)) space.drop(item.run.chunk, item.run.count);
      }
    }
  };

  Result<void> move(std::span<Item> batch) {
    if (batch.size() > kMaxSharers) {
      report.whole = false;
      return {};
    }
    const Pins pins(store_.space_, batch);
    std::vector<Item*> items;
    for (Item& item : batch) {
      if (item.pinned) items.push_back(&item);
    }
    if (items.empty()) return {};
    // Each chunk once.
    from_.clear();
    for (const Item* const item : items) {
      const uint64_t end = item->run.chunk + item->run.count;
      for (uint64_t c = std::max(item->run.chunk, from_.empty() ? 0 : from_.back() + 1); c < end;
           ++c) {
        from_.push_back(c);
      }
    }
    std::vector<Piece> pieces;
    if (const auto got = store_.space_.allocate_below(limit_, &look_from_, from_.size(), pieces);
        !got) {
      return got;
    }
    const Held held{store_.space_, pieces};
    return move_to(pieces, items);
  }

  // The reference that allocation gave, until the new owners have their own, or memory runs out.
  struct Held {
    Space& space;
    const std::vector<Piece>& pieces;
    ~Held() {
      for (const Piece& piece : pieces) space.drop(piece.chunk, piece.count);
    }
  };

  Result<void> move_to(std::span<const Piece> pieces, std::span<Item* const> items) {
    to_.clear();
    for (const Piece& piece : pieces) {
      for (uint32_t i = 0; i < piece.count; ++i) to_.push_back(piece.chunk + i);
    }
    copied_.assign(from_.size(), false);
    std::erase_if(mine_ = {items.begin(), items.end()},
                  [&](const Item* item) { return !copy(*item); });
    store_.persist_pieces(pieces);
    store_.note_dirty(pieces);
    for (Item* const item : mine_) {
      const auto done = store_.attempt(0, [&] { return install(*item); });
      if (!done) return done;
    }
    return {};
  }

  [[nodiscard]] size_t place_of(uint64_t chunk) const {
    return static_cast<size_t>(std::ranges::lower_bound(from_, chunk) - from_.begin());
  }

  // All chunks of it, unless they were. False: one is damaged, and all stay.
  bool copy(const Item& item) {
    const size_t first = place_of(item.run.chunk);
    for (uint32_t i = 0; i < item.run.count; ++i) {
      const size_t at = first + i;
      if (copied_[at]) continue;
      if (auto damage = copy_chunk(item, i, to_[at])) {
        if (report.damage.size() < kMaxReported) report.damage.push_back(std::move(*damage));
        report.whole = false;
        return false;
      }
      copied_[at] = true;
    }
    return true;
  }

  std::optional<Damage> copy_chunk(const Item& item, uint32_t i, uint64_t to) {
    Space& space = store_.space_;
    const uint64_t from = item.run.chunk + i;
    const auto unreadable = [&] { return unreadable_damage(item.object->id, item.run, i); };
    if (!space.load(from, 1) || !space.load(to, 1) || space.unreadable(from)) return unreadable();
    const uint8_t* const old = space.memory(from);
    uint8_t* const chunk = space.memory(to);
    const uint32_t crc = crc_copy(chunk, {old, kDataBytes});
    if (auto damage = find_damage(old, crc, item.object->id, item.run, i, store_.tag_)) {
      return damage;
    }
    ChunkHead head = head_of(old);
    head.id = to;
    seal(chunk, head, crc);
    return std::nullopt;
  }

  // Log and mapping, unless the object was changed there meanwhile. The time is the one that the
  // object has: its bytes are not modified.
  Result<void> install(Item& item) {
    Object& object = *item.object;
    const WriteLock lock(object.lock);
    if (!is_still_so(object, item.run)) return {};
    std::vector<Run> runs;
    const size_t first = place_of(item.run.chunk);
    for (uint32_t i = 0; i < item.run.count; ++i) {
      const uint64_t chunk = to_[first + i];
      const bool goes_on = !runs.empty() && chunk == runs.back().chunk + runs.back().count &&
                           chunk % store_.space_.chunks_per_block() != 0;
      if (goes_on) {
        ++runs.back().count;
        continue;
      }
      Birth birth = item.run.birth;
      birth.index += i;
      runs.push_back({item.run.index + i, chunk, 1, item.run.held, birth});
    }
    const uint64_t growth = SegmentTable::growth(runs.size());
    if (const auto room = store_.room_for_runs(growth); !room) return room;
    SegmentTable::Change change;
    object.table.prepare(item.run.index, item.run.index + item.run.count, runs, change);
    auto entry = store_.log_->begin(runs.size() * kRunBytes + 2 * kMaxSmallBytes,
                                    {StoreImpl::growth_of(object, growth)});
    if (!entry) return fail(entry.error());
    (*entry)->map(object.number, object.size, runs);
    entry->commit(store_.next_txn(), object.modified_ns);
    for (const Run& run : runs) store_.space_.add(run.chunk, run.count);
    store_.apply(object, change);
    store_.mark_dirty(object);
    report.moved += item.run.count;
    return {};
  }

  StoreImpl& store_;
  const Progress& progress_;
  const uint32_t limit_;
  uint32_t look_from_ = 0;
  std::vector<Item> items_;  // in order of their chunks
  uint64_t chunks_ = 0;      // of all items so far
  uint64_t chunks_done_ = 0;
  // Of one batch:
  std::vector<uint64_t> from_;  // chunks, in order
  std::vector<uint64_t> to_;    // where each goes
  std::vector<bool> copied_;
  std::vector<Item*> mine_;
};

// Of several media one may have more than another: not every position below the end is there.
uint32_t StoreImpl::blocks_there() const {
  uint32_t count = 0;
  const uint32_t end = backend_->existing();
  for (uint32_t position = 0; position < end; ++position) count += backend_->has(position) ? 1 : 0;
  return count;
}

// With so many percent of space for what comes next.
StoreImpl::CompactPlan StoreImpl::plan_compaction(uint64_t chunks, uint64_t log_blocks,
                                                  uint32_t slack) const {
  const uint64_t per_block = space_.chunks_per_block();
  const uint64_t data = (chunks + per_block - 1) / per_block;
  CompactPlan plan;
  plan.for_log = std::max(log_->blocks_for(index_bytes()), log_blocks);
  const uint64_t need = data + data * slack / 100 + 1 + plan.for_log;
  const uint32_t existing = backend_->existing();
  plan.limit = backend_->trimmed(static_cast<uint32_t>(std::min<uint64_t>(need, existing)));
  plan.spare = existing - std::min(plan.limit, existing);
  return plan;
}

SpareSpace StoreImpl::spare_space(uint32_t slack) const {
  if (!log_) return {};
  // What is pending is free after the first checkpoint.
  const uint64_t chunks = space_.numbers().used;
  return {.blocks = backend_->existing(), .spare = plan_compaction(chunks, 0, slack).spare};
}

Result<CompactReport> StoreImpl::compact(const Progress& progress, uint32_t slack) {
  const MutexLock one_at_a_time(compacting_);
  CompactReport report;
  report.blocks_before = report.blocks = blocks_there();
  if (!log_) return report;
  // One table alone, and nothing pending.
  if (const auto done = checkpoint(true); !done) {
    if (done.error().code != Code::kFull) return fail(done.error());
    report.whole = false;
    return report;
  }
  const Space::Numbers numbers = space_.numbers();
  const auto plan = plan_compaction(numbers.used + numbers.pending,
                                    numbers.log / space_.chunks_per_block(), slack);
  if (plan.spare == 0) return report;
  // The last before the limit are for what log and tables do not have before it yet.
  const uint64_t lacking =
      plan.for_log - std::min<uint64_t>(plan.for_log, log_->blocks_below(plan.limit));
  uint32_t data_limit = plan.limit;
  for (uint64_t left = lacking; left > 0 && data_limit > 0;) {
    left -= backend_->has(--data_limit) ? 1 : 0;
  }
  struct Leaving {
    StoreImpl& store;
    ~Leaving() {
      store.space_.leave_from(0);
      store.log_->leave_from(0);
    }
  };
  Compaction work(*this, progress, data_limit);
  {
    const Leaving leaving{*this};
    space_.leave_from(data_limit);
    auto done = work.run();
    if (done) done = checkpoint();  // what has moved is free where it was
    log_->leave_from(plan.limit);
    if (done) done = checkpoint(true);
    if (!done && done.error().code != Code::kFull) return fail(done.error());
    work.report.whole = work.report.whole && done;
    work.report.blocks_before = report.blocks_before;
    if (const auto less = backend_->trim(); !less) {
      return fail(Error{Code::kIo, less.error().what, {}});
    }
  }
  work.report.blocks = blocks_there();
  return std::move(work.report);
}

}  // namespace verbena::store
