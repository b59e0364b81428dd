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

// A table's chunks, as they come, into extents of their own. The first is written last.
class Log::TableStream final : public TableWriter {
 public:
  // At most `most` chunks.
  TableStream(Log& log, std::vector<Extent>& extents, uint64_t most)
      : log_(log), extents_(extents), left_(most), serial_(++log.tables_begun_) {
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
    head.birth = {0, table_sequence(serial_, number), log_.root_.mark};
    head.store = log_.root_.store;
    head.flags = kFlagCheckpoint;
    return head;
  }
  [[nodiscard]] Slots next_slots() {
    if (!failed_ && (extents_.empty() || filled_ == extents_.back().count)) take_extent();
    if (failed_) return {};
    ++next_;
    left_ -= left_ > 0 ? 1 : 0;
    const uint32_t i = filled_++;
    return {log_.log_space_.slot_a(extents_.back(), i), log_.log_space_.slot_b(extents_.back(), i)};
  }
  void take_extent() {
    const auto want = static_cast<uint32_t>(
        std::min<uint64_t>(log_.log_space_.chunks_per_pair(), std::max<uint64_t>(left_, 1)));
    auto extent =
        extents_.size() < extents_.capacity() ? log_.log_space_.allocate(want) : std::nullopt;
    if (!extent) {
      failed_ = true;
      return;
    }
    extent->sequence = table_sequence(serial_, next_);
    extent->txn = log_.root_.mark;
    extents_.push_back(*extent);
    filled_ = 0;
  }

  Log& log_;
  std::vector<Extent>& extents_;  // with room for as many as there may be
  uint64_t left_;
  // Each attempt has its own: what one that failed has written may lie where the next one writes.
  const uint64_t serial_;
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
  while (log_space_.free_chunks() < most) {
    if (!log_space_.grow()) return false;
  }
  return true;
}

// The new table, merged with `merged` others, before the superblock names it.
Result<void> Log::write_table(const Checkpoint& what, size_t merged, std::vector<Extent>& extents) {
  std::vector<Table> tables;
  tables.reserve(merged + 1);
  tables.push_back(what.newest);
  uint64_t most = what.newest.shape().all() + 1;
  for (size_t i = 0; i < merged; ++i) {
    tables.push_back(what.tables.all()[i]);
    most += what.tables.stored(i).chunks();
  }
  TableStream stream(*this, extents, most);
  const bool oldest = merged == what.tables.all().size();
  if (const auto done = merge_tables(tables, oldest, stream); !done) return done;
  stream.finish(what.next_number);
  if (stream.failed()) return fail(Error{Code::kFull, "no space for a checkpoint", {}});
  for (const Extent& extent : extents) {
    const size_t bytes = size_t{extent.count} * kChunkBytes;
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
    if (merged_ > 0 && !log_.make_room_for(what_, merged_) && !what_.all) merged_ = 0;
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
    size_t others = log_.root_.log.size();
    for (size_t i = merged_; i < what_.tables.all().size(); ++i) {
      others += what_.tables.stored(i).extents().size();
    }
    extents_.reserve(kMaxExtents - std::min(kMaxExtents, others + 8));
    return log_.write_table(what_, merged_, extents_);
  }
  void release() {
    for (const Extent& extent : extents_) log_.log_space_.release(extent);
    extents_.clear();
  }

  Log& log_;
  const Checkpoint& what_;
  std::vector<Extent> extents_;
  size_t merged_ = 0;
  bool kept_ = false;
};

void Log::leave_from(uint32_t limit) {
  const std::scoped_lock lock(mutex_);
  log_space_.leave_from(limit);
}

uint64_t Log::blocks_below(uint32_t limit) const {
  const std::scoped_lock lock(mutex_);
  return 2 * log_space_.pairs_below(limit);
}

// The tables are written anew while the old ones are there.
uint64_t Log::blocks_for(uint64_t index_bytes) const {
  const uint64_t chunks = 1 + 2 * table_chunks_for(index_bytes) + kCheckpointAfter;
  return 2 * ((chunks + log_space_.chunks_per_pair() - 1) / log_space_.chunks_per_pair());
}

// The log goes on where it is, unless it is to leave there; what it has said so far, the open chunk
// too, is in the checkpoint.
void Log::cut_log(Superblock& root, std::vector<Extent>& released) const {
  root.replay_from = next_;
  root.log.clear();
  for (const Extent& extent : root_.log) {
    const uint64_t over =
        next_ <= extent.sequence ? 0 : std::min<uint64_t>(extent.count, next_ - extent.sequence);
    Extent past = extent;
    past.count = static_cast<uint16_t>(over);
    if (over > 0) released.push_back(past);
    if (over == extent.count) continue;
    Extent rest = extent;
    rest.first = static_cast<uint16_t>(rest.first + over);
    rest.count = static_cast<uint16_t>(rest.count - over);
    rest.sequence += over;
    const bool stays = rest.txn == root.mark && !log_space_.leaves(rest);
    (stays ? root.log : released).push_back(rest);
  }
  root.durable = next_ - 1;
}

Result<void> Log::checkpoint(const Checkpoint& what) {
  const std::scoped_lock locks(flushing_, mutex_);
  NewTable table(*this, what);
  if (const auto done = table.write(); !done) return done;
  // What can fail for want of memory comes first.
  Superblock root = root_;
  root.checkpoint = table.extents();
  std::vector<Extent> released;
  for (size_t i = 0; i < what.tables.all().size(); ++i) {
    const auto& those = what.tables.stored(i).extents();
    auto& to = i < table.merged() ? released : root.checkpoint;
    to.insert(to.end(), those.begin(), those.end());
  }
  cut_log(root, released);
  Tables tables(what.tables.memory());
  if (const auto done = tables.open(root); !done) return done;
  ++root.generation;
  table.keep();
  const Order order = opening_ ? Order::kBThenA : Order::kAThenB;
  if (const auto done = write_root(root, order); !done) return done;  // read-only from here on
  root_ = std::move(root);
  what.tables = std::move(tables);
  for (const Extent& extent : released) log_space_.release(extent);
  reset();
  wants_checkpoint_.store(false, std::memory_order_relaxed);
  durable_ = watermark_ = next_ - 1;
  log_space_.shrink(kCheckpointAfter);
  reserve_ = 0;  // whoever needs room provides it
  space_.forget();
  return {};
}

}  // namespace verbena::store
