// SPDX-License-Identifier: Apache-2.0
// A checkpoint: what changed becomes a table, the superblocks name it, and the log before it is
// free again.
#include <algorithm>
#include <new>

#include "store/log.h"
#include "store/table_merge.h"

namespace verbena::store {
namespace {

constexpr size_t kMaxTables = 16;  // which whoever looks for an object may have to search

}  // namespace

// A table's chunks, as they come, into extents of their own. The first is written last. The log's
// lock is taken for a moment where it needs an extent; others append meanwhile.
class Log::TableStream final : public TableWriter {
 public:
  // At most `most` chunks.
  TableStream(Log& log, std::vector<Extent>& extents, uint64_t most, uint64_t& promised,
              bool beside)
      : log_(log), extents_(extents), left_(most), promised_(promised), beside_(beside) {
    {
      const ShortLock lock(log.mutex_);
      serial_ = ++log.tables_begun_;
      mark_ = log.root_.mark;
      store_ = log.root_.store;
    }
    failed_ = serial_ > kMaxTableSerial;
    first_ = next_slots();
  }
  void finish(uint64_t next_number) {
    const TableShape shape = TableWriter::finish();
    if (failed_) return;
    std::array<uint8_t, kDataBytes> data{};
    RecordWriter writer(data);
    static_cast<void>(writer.table({next_number, shape.chunks}));
    write_both(first_.a, first_.b, data, writer.used(), head_for(0));
    // What was not needed.
    if (filled_ < extents_.back().count) {
      Extent rest = extents_.back();
      rest.first = static_cast<uint16_t>(rest.first + filled_);
      rest.count = static_cast<uint16_t>(rest.count - filled_);
      const ShortLock lock(log_.mutex_);
      log_.log_space_.release(rest);
      extents_.back().count = filled_;
    }
  }
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  struct Slots {
    LogSpace::Slot a;
    LogSpace::Slot b;
  };
  void chunk(std::span<const uint8_t, kDataBytes> data, size_t used) override {
    const uint64_t number = next_;
    const Slots slots = next_slots();
    if (!failed_) write_both(slots.a, slots.b, data, used, head_for(number));
  }
  [[nodiscard]] ChunkHead head_for(uint64_t number) const {
    ChunkHead head;
    head.birth = {0, table_sequence(serial_, number), mark_};
    head.store = store_;
    head.flags = kFlagCheckpoint;
    return head;
  }
  [[nodiscard]] Slots next_slots() {
    if (!failed_ && (extents_.empty() || filled_ == extents_.back().count)) take_extent();
    if (failed_) return {};
    ++next_;
    left_ -= left_ > 0 ? 1 : 0;
    const uint32_t i = filled_++;
    return {{begin_.a.memory + size_t{i} * kChunkBytes, begin_.a.id + i},
            {begin_.b.memory + size_t{i} * kChunkBytes, begin_.b.id + i}};
  }
  void take_extent() {
    const ShortLock lock(log_.mutex_);
    const bool fits = extents_.size() < extents_.capacity();
    // What was kept for it may be less than it takes, where somebody removed without room.
    if (fits && spare() == 0) static_cast<void>(log_.log_space_.grow());
    const auto want = static_cast<uint32_t>(std::min<uint64_t>(
        {log_.log_space_.chunks_per_pair(), std::max<uint64_t>(left_, 1), spare()}));
    auto extent = fits && want > 0 ? log_.log_space_.allocate(want) : std::nullopt;
    if (!extent) {
      failed_ = true;
      return;
    }
    extent->sequence = table_sequence(serial_, next_);
    extent->txn = mark_;
    // What was kept for it is its own now.
    const uint64_t kept = std::min<uint64_t>(log_.promised_, extent->count);
    log_.promised_ -= kept;
    promised_ += kept;
    extents_.push_back(*extent);
    begin_ = {log_.log_space_.slot_a(*extent, 0), log_.log_space_.slot_b(*extent, 0)};
    filled_ = 0;
  }

  // What others append meanwhile has its own room for the next table.
  [[nodiscard]] uint64_t spare() const VERBENA_REQUIRES(log_.mutex_) {
    const uint64_t others = beside_ ? log_.kept_for(log_.reserve_) - log_.promised_ : 0;
    const uint64_t free = log_.log_space_.free_chunks();
    return free > others ? free - others : 0;
  }

  Log& log_;
  std::vector<Extent>& extents_;  // with room for as many as there may be
  uint64_t left_;
  uint64_t& promised_;
  const bool beside_;  // others append
  // Each attempt has its own: what one that failed has written may lie where the next one writes.
  uint64_t serial_ = 0;
  uint64_t mark_ = 0;
  uint32_t store_ = 0;
  Slots begin_;  // of the last extent
  bool failed_ = false;
  uint16_t filled_ = 0;
  uint64_t next_ = 0;  // number in the table; the extents of a superblock bound it
  Slots first_;
};

// How many of the tables, the newest first, the new one is merged with: those that are not much
// larger than it is by then. So each is at least twice as large as all newer ones, there are few,
// and what is written once is written again as often as their number doubles.
size_t Log::worth_merging(const Checkpoint& what) const {
  const size_t tables = what.tables.all().size();
  uint64_t stored = 0;
  for (size_t i = 0; i < tables; ++i) stored += what.tables.stored(i).chunks();
  const bool mostly_stale = stored > 4 * table_chunks_for(what.index_bytes);
  if (what.all || tables >= kMaxTables || mostly_stale) return tables;
  uint64_t sum = what.newest.shape().all() + 1;
  size_t count = 0;
  while (count < tables && what.tables.stored(count).chunks() <= 2 * sum) {
    sum += what.tables.stored(count++).chunks();
  }
  return count;
}

// Whether there are free chunks for the new table, merged with so many others.
bool Log::make_room_for(const Checkpoint& what, size_t merged) {
  uint64_t most = what.newest.shape().all() + 1;
  for (size_t i = 0; i < merged; ++i) most += what.tables.stored(i).chunks();
  const ShortLock lock(mutex_);
  // If others append meanwhile, what is kept for the next one is not for this one.
  if (what.end) most += kept_for(reserve_) - promised_;
  while (log_space_.free_chunks() < most) {
    if (!log_space_.grow()) return false;
  }
  return true;
}

// The new table, merged with `merged` others, before the superblock names it.
Result<void> Log::write_table(const Checkpoint& what, size_t merged, std::vector<Extent>& extents,
                              uint64_t& promised) {
  std::vector<Table> tables;
  tables.reserve(merged + 1);
  tables.push_back(what.newest);
  uint64_t most = what.newest.shape().all() + 1;
  for (size_t i = 0; i < merged; ++i) {
    tables.push_back(what.tables.all()[i]);
    most += what.tables.stored(i).chunks();
  }
  TableStream stream(*this, extents, most, promised, what.end.has_value());
  const bool oldest = merged == what.tables.all().size();
  if (const auto done = merge_tables(tables, oldest, stream); !done) return done;
  stream.finish(what.next_number);
  if (stream.failed()) return fail(Error{Code::kFull, "no space for a checkpoint", {}});
  for (const Extent& extent : extents) {
    const size_t bytes = size_t{extent.count} * kChunkBytes;
    const ShortLock lock(mutex_);
    persist_.flush(PersistPoint::kCheckpointA, log_space_.slot_a(extent, 0).memory, bytes);
    persist_.flush(PersistPoint::kCheckpointB, log_space_.slot_b(extent, 0).memory, bytes);
  }
  return persist_.fence(PersistPoint::kCheckpointFence);
}

// The new table, as large as there is room for. It stays if keep() is called.
class Log::NewTable {
 public:
  NewTable(Log& log, const Checkpoint& what) : log_(log), what_(what) {}
  NewTable(const NewTable&) = delete;
  NewTable& operator=(const NewTable&) = delete;
  ~NewTable() {
    if (!kept_) release();
  }
  [[nodiscard]] Result<void> write() {
    merged_ = log_.worth_merging(what_);
    // Where there is little room, as many as fit: each table that stays takes a chunk or two more
    // than what is in it, and a full store could not be emptied.
    while (merged_ > 0 && !log_.make_room_for(what_, merged_) && !what_.all) --merged_;
    if (what_.newest.shape().all() == 0 && merged_ == 0) return {};
    auto done = write_merged();
    if (done || merged_ == 0 || what_.all || done.error().code != Code::kFull) return done;
    // Without room for a larger one the smallest will do.
    release();
    merged_ = 0;
    return write_merged();
  }
  void keep() { kept_ = true; }
  // How many of the tables so far, the newest first, it replaces.
  [[nodiscard]] size_t merged() const { return merged_; }
  [[nodiscard]] const std::vector<Extent>& extents() const { return extents_; }

 private:
  [[nodiscard]] Result<void> write_merged() {
    size_t others = log_.root().log.size();
    for (size_t i = merged_; i < what_.tables.all().size(); ++i) {
      others += what_.tables.stored(i).extents().size();
    }
    extents_.reserve(kMaxExtents - std::min(kMaxExtents, others + 8));
    return log_.write_table(what_, merged_, extents_, promised_);
  }
  void release() {
    const ShortLock lock(log_.mutex_);
    for (const Extent& extent : extents_) log_.log_space_.release(extent);
    extents_.clear();
    log_.promised_ += std::exchange(promised_, 0);
  }

  Log& log_;
  const Checkpoint& what_;
  std::vector<Extent> extents_;
  uint64_t promised_ = 0;  // chunks that were kept for it, and that it has now
  size_t merged_ = 0;
  bool kept_ = false;
};

void Log::leave_from(uint32_t limit) {
  const ShortLock lock(mutex_);
  log_space_.leave_from(limit);
}

uint64_t Log::blocks_below(uint32_t limit) const {
  const ShortLock lock(mutex_);
  return 2 * log_space_.pairs_below(limit);
}

// The tables are written anew while the old ones are there.
uint64_t Log::blocks_for(uint64_t index_bytes) const {
  const uint64_t chunks = 1 + 2 * table_chunks_for(index_bytes) + kCheckpointAfter;
  return 2 * ((chunks + chunks_per_pair_ - 1) / chunks_per_pair_);
}

// The log goes on where it is, unless it is to leave there; what it says before that is in the
// checkpoint. The extents that stay have no gap: behind one that the log leaves before it was full,
// no other stays.
void Log::cut_log(Superblock& root, const Checkpoint& what, std::vector<Extent>& released) const {
  const uint64_t end = what.end.value_or(next_);
  root.replay_from = end;
  root.log.clear();
  uint64_t next = end;  // where the extents that stay end
  for (const Extent& extent : root_.log) {
    const uint64_t over =
        end <= extent.sequence ? 0 : std::min<uint64_t>(extent.count, end - extent.sequence);
    Extent past = extent;
    past.count = static_cast<uint16_t>(over);
    if (over > 0) released.push_back(past);
    if (over == extent.count) continue;
    Extent rest = extent;
    rest.first = static_cast<uint16_t>(rest.first + over);
    rest.count = static_cast<uint16_t>(rest.count - over);
    rest.sequence += over;
    // Where somebody may append it must stay: cut() has taken care of those.
    const bool goes_on = rest.txn == root.mark && rest.sequence == next;
    const bool stays = goes_on && (what.end || !log_space_.leaves(rest));
    (stays ? root.log : released).push_back(rest);
    if (stays) next += rest.count;
  }
  root.durable = std::max(durable_, end - 1);
}

bool Log::goes_on_in_left() const {
  return std::ranges::any_of(root_.log, [&](const Extent& extent) VERBENA_REQUIRES(mutex_) {
    return extent.sequence + extent.count > next_ && log_space_.leaves(extent);
  });
}

// The log goes on elsewhere; chunks with a watermark alone fill the rest of where it is.
Result<void> Log::leave_extents() {
  if (!goes_on_in_left()) return {};
  if (const auto more = extend(); !more) {
    return more.error().code == Code::kLogFull ? Result<void>{} : more;
  }
  while (goes_on_in_left()) {
    if (used() == 0) {
      RecordStream::commit({0, durable_, 0});
      watermark_ = durable_;
    }
    full();
  }
  return {};
}

Result<Log::Cut> Log::cut() {
  const MutexLock flushing(flushing_);
  const ShortLock lock(mutex_);
  if (const auto left = leave_extents(); !left) return fail(left.error());
  if (used() > 0) full();
  Cut cut{root_, next_};
  space_.sealed(cut.end - 1);
  space_.cover();
  promised_ = std::exchange(reserve_, 0);
  cut_bytes_ = std::exchange(table_bytes_, 0);
  cut_since_ = std::exchange(counted_since_, ++period_);
  if (durable_ + 1 < cut.end) {
    flush_sealed(durable_ + 1, cut.end);
    const auto done = [&]() VERBENA_REQUIRES(mutex_) {
      const ScopedUnlock unlocked(mutex_);
      return persist_.fence(PersistPoint::kLogFence);
    }();
    if (!done) return fail(done.error());
    durable_ = cut.end - 1;
  }
  return cut;
}

void Log::give_up() {
  const ShortLock lock(mutex_);
  table_bytes_ += std::exchange(cut_bytes_, 0);
  counted_since_ = cut_since_;
  // Two tables that become one take no more than they did.
  reserve_ = std::min(reserve_ + std::exchange(promised_, 0), table_chunks_for(table_bytes_));
  space_.uncover();
}

Result<void> Log::checkpoint(const Checkpoint& what) {
  NewTable table(*this, what);
  if (const auto done = table.write(); !done) return done;
  return replace_root(table, what);
}

// The table is durable: the superblocks name it, and what it replaces is free.
Result<void> Log::replace_root(NewTable& table, const Checkpoint& what) {
  const MutexLock flushing(flushing_);
  const ShortLock lock(mutex_);
  const bool all = !what.end.has_value();
  // What can fail for want of memory comes first.
  Superblock root = root_;
  root.checkpoint = table.extents();
  std::vector<Extent> released;
  for (size_t i = 0; i < what.tables.all().size(); ++i) {
    const auto& those = what.tables.stored(i).extents();
    auto& to = i < table.merged() ? released : root.checkpoint;
    to.insert(to.end(), those.begin(), those.end());
  }
  cut_log(root, what, released);
  if (root.checkpoint.size() + root.log.size() > kMaxExtents) {
    return fail(Error{Code::kFull, "no space for a checkpoint", {}});
  }
  Tables tables(what.tables.memory());
  if (const auto done = tables.open(root); !done) return done;
  ++root.generation;
  table.keep();
  const Order order = opening_ ? Order::kBThenA : Order::kAThenB;
  // Nobody else changes the superblock. What is appended meanwhile is in extents that the old one
  // and the new one name.
  const auto written = [&]() VERBENA_REQUIRES(flushing_, mutex_) {
    const ScopedUnlock unlocked(mutex_);
    return write_root(root, order);
  }();
  if (!written) return written;  // read-only from here on
  root_ = std::move(root);
  what.tables = std::move(tables);
  for (const Extent& extent : released) log_space_.release(extent);
  if (all) {
    reset();  // the open chunk is in it, too
    durable_ = watermark_ = next_ - 1;
    reserve_ = 0;  // whoever needs room provides it
    table_bytes_ = 0;
    counted_since_ = ++period_;
    space_.forget();
  } else {
    space_.forget_covered();
  }
  // give_up() of one that fails before its cut takes nothing back.
  promised_ = cut_bytes_ = 0;
  cut_since_ = counted_since_;
  wants_checkpoint_.store(length() > kCheckpointAfter, std::memory_order_relaxed);
  log_space_.shrink(std::max(kCheckpointAfter, kept_for(reserve_) + a_little()));
  return {};
}

}  // namespace verbena::store
