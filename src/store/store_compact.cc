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
#include <algorithm>

#include "store/chunk_check.h"
#include "store/crc_parts.h"
#include "store/store_impl.h"

namespace verbena::store {
namespace {

constexpr uint64_t kAtOnce = 256;     // chunks, while everything else waits
constexpr size_t kMaxSharers = 4096;  // of overlapping runs, beyond which they stay
constexpr size_t kMaxReported = 1000;

}  // namespace

class StoreImpl::Compaction {
 public:
  Compaction(StoreImpl& store, const Progress& progress, uint32_t limit)
      : store_(store), progress_(progress), limit_(limit) {}

  Result<void> run() {
    collect();
    uint64_t chunks = 0;
    for (size_t at = 0; at < items_.size();) {
      const size_t end = batch_end(at);
      if (progress_ && !progress_(chunks, chunks_)) {
        report.whole = false;
        return {};
      }
      const auto batch = std::span(items_).subspan(at, end - at);
      auto moved = move(batch);
      if (!moved && moved.error().code == Code::kLogFull && store_.checkpoint())
        moved = move(batch);
      if (!moved && moved.error().code == Code::kFull) {
        report.whole = false;
        return {};
      }
      if (!moved) return moved;
      if (const auto settled = store_.settle(0); !settled) return settled;
      for (const Item& item : batch) chunks += item.run.count;
      at = end;
    }
    return {};
  }

  CompactReport report;

 private:
  struct Item {
    ObjectRef object;
    Run run;
  };

  void collect() {
    const std::unique_lock world(store_.world_);
    store_.catalog_.for_each([&](Object& object) {
      object.table.for_each(0, kMaxIndex, [&](const Run& run) {
        if (run.chunk / store_.space_.chunks_per_block() >= limit_) {
          items_.push_back({ObjectRef(&object), run});
          chunks_ += run.count;
        }
        return true;
      });
    });
    std::ranges::sort(items_, {}, [](const Item& item) { return item.run.chunk; });
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

  [[nodiscard]] static bool is_still_so(const Item& item) {
    if (item.object->removed) return false;
    bool same = false;
    item.object->table.for_each(item.run.index, item.run.index + item.run.count,
                                [&](const Run& run) {
                                  same = run == item.run;
                                  return false;
                                });
    return same;
  }

  Result<void> move(std::span<Item> batch) {
    const std::unique_lock world(store_.world_);
    std::vector<Item*> items;
    for (Item& item : batch) {
      if (is_still_so(item)) items.push_back(&item);
    }
    if (items.empty() || items.size() > kMaxSharers) {
      if (!items.empty()) report.whole = false;
      return {};
    }
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
      if (const auto done = install(*item); !done) return done;
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

  // Log and mapping. The time is the one that the object has: its bytes are not modified.
  Result<void> install(Item& item) {
    Object& object = *item.object;
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
      runs.push_back({item.run.index + i, chunk, 1, birth});
    }
    const uint64_t growth = SegmentTable::growth(runs.size());
    if (const auto room = store_.room_for_runs(growth); !room) return room;
    SegmentTable::Change change;
    object.table.prepare(item.run.index, item.run.index + item.run.count, runs, change);
    auto entry = store_.log_->begin(runs.size() * kRunBytes + 2 * kMaxSmallBytes,
                                    store_.table_with(object, growth));
    if (!entry) return fail(entry.error());
    (*entry)->map(object.number, object.size, runs);
    entry->commit(store_.next_txn(), object.modified_ns);
    for (const Run& run : runs) store_.space_.add(run.chunk, run.count);
    store_.apply(object, change);
    store_.mark_dirty(object, growth);
    report.moved += item.run.count;
    return {};
  }

  StoreImpl& store_;
  const Progress& progress_;
  const uint32_t limit_;
  uint32_t look_from_ = 0;
  std::vector<Item> items_;  // in order of their chunks
  uint64_t chunks_ = 0;
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

Result<CompactReport> StoreImpl::compact(const Progress& progress) {
  CompactReport report;
  report.blocks_before = report.blocks = blocks_there();
  if (!log_) return report;
  // One table alone, and nothing pending.
  if (const auto done = checkpoint(true); !done) {
    if (done.error().code != Code::kFull) return fail(done.error());
    report.whole = false;
    return report;
  }
  const uint64_t per_block = space_.chunks_per_block();
  const Space::Numbers numbers = space_.numbers();
  const uint64_t for_log = std::max(log_->blocks_for(index_bytes()), numbers.log / per_block);
  const uint64_t need = (numbers.used + numbers.pending + per_block - 1) / per_block + 1 + for_log;
  const uint32_t limit =
      backend_->trimmed(static_cast<uint32_t>(std::min<uint64_t>(need, backend_->existing())));
  if (limit >= backend_->existing()) return report;
  // The last before the limit are for what log and tables do not have before it yet.
  const uint64_t lacking = for_log - std::min<uint64_t>(for_log, log_->blocks_below(limit));
  uint32_t data_limit = limit;
  for (uint64_t left = lacking; left > 0 && data_limit > 0;) {
    left -= backend_->has(--data_limit) ? 1 : 0;
  }
  Compaction work(*this, progress, data_limit);
  auto done = work.run();
  if (done) done = checkpoint();  // what has moved is free where it was
  space_.give_up_from(data_limit);
  log_->leave_from(limit);
  if (done) done = checkpoint(true);
  log_->leave_from(0);
  if (!done && done.error().code != Code::kFull) return fail(done.error());
  work.report.whole = work.report.whole && done;
  work.report.blocks_before = report.blocks_before;
  if (const auto less = backend_->trim(); !less) {
    return fail(Error{Code::kIo, less.error().what, {}});
  }
  work.report.blocks = blocks_there();
  return std::move(work.report);
}

}  // namespace verbena::store
