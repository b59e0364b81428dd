// SPDX-License-Identifier: Apache-2.0
#include "store/log.h"

#include <algorithm>

#include "base/check.h"
#include "store/crc_parts.h"

namespace verbena::store {
namespace {

constexpr uint32_t kFirstExtent = 32;  // chunks; later ones are half as long as the log
constexpr uint64_t kLongLog = 16;      // chunks that are not left in the log at the end

// Chunks that records of so many bytes take, with what is lost at the end of each.
uint64_t chunks_for(uint64_t bytes) { return bytes / 3000 + 2; }

}  // namespace

Log::Log(Space& space, Persist& persist, LogSpace log_space, Superblock root, uint64_t next)
    : space_(space),
      persist_(persist),
      chunks_per_pair_(log_space.chunks_per_pair()),
      superblock_a_(log_space.superblock_a(), kChunkBytes),
      superblock_b_(log_space.superblock_b(), kChunkBytes),
      log_space_(std::move(log_space)),
      root_(std::move(root)),
      next_(next),
      durable_(next - 1) {}

Superblock Log::root() const {
  const ShortLock lock(mutex_);
  return root_;
}

bool Log::is_long() const {
  const ShortLock lock(mutex_);
  return length() > kLongLog;
}

// Not after a failure, be it another thread's: the one that failed may have reached one copy, or
// both, and the next would have its generation.
Result<void> Log::write_copy(const Superblock& root, bool copy_b) {
  if (const auto good = persist_.not_failed(); !good) return good;
  const std::span<uint8_t, kChunkBytes> chunk = copy_b ? superblock_b_ : superblock_a_;
  tried_ = root.generation;
  trying_b_ = copy_b;
  encode(root, copy_b ? root.chunks_per_block : 0, chunk);
  persist_.flush(copy_b ? PersistPoint::kSuperB : PersistPoint::kSuperA, chunk.data(),
                 chunk.size());
  return {};
}

Result<void> Log::write_root(const Superblock& root, Order order) {
  if (const auto done = write_copy(root, order == Order::kBThenA); !done) return done;
  if (const auto done = persist_.fence(PersistPoint::kSuperFirstFence); !done) return done;
  if (const auto done = write_copy(root, order == Order::kAThenB); !done) return done;
  return persist_.fence(PersistPoint::kSuperSecondFence);
}

void Log::begin_opening(uint64_t mark) {
  root_.previous = root_.mark;
  root_.mark = mark;
  root_.end = 0;
}

Result<void> Log::start_with_checkpoint(uint64_t mark, const Checkpoint& what) {
  {
    const ShortLock lock(mutex_);
    begin_opening(mark);
    opening_ = true;
  }
  auto done = checkpoint(what);
  const ShortLock lock(mutex_);
  opening_ = false;
  return done;
}

Result<void> Log::start(uint64_t mark) {
  const MutexLock flushing(flushing_);
  const ShortLock lock(mutex_);
  begin_opening(mark);
  Superblock root = root_;
  for (Extent& extent : root.log) {
    const uint64_t keep =
        extent.sequence >= next_ ? 0 : std::min<uint64_t>(extent.count, next_ - extent.sequence);
    if (keep == extent.count) continue;
    Extent cut = extent;
    cut.first = static_cast<uint16_t>(cut.first + keep);
    cut.count = static_cast<uint16_t>(cut.count - keep);
    log_space_.release(cut);
    extent.count = static_cast<uint16_t>(keep);
  }
  std::erase_if(root.log, [](const Extent& extent) { return extent.count == 0; });
  // Without room the first append asks for a checkpoint.
  if (const auto added = add_extent(root); !added && added.error().code != Code::kLogFull) {
    return added;
  }
  ++root.generation;
  if (const auto done = write_root(root, Order::kBThenA); !done) return done;
  root_ = std::move(root);
  return {};
}

uint64_t Log::slots_left(const Superblock& root) const {
  if (root.log.empty()) return 0;
  const Extent& last = root.log.back();
  const uint64_t end = last.sequence + last.count;
  return end > next_ && last.txn == root.mark ? end - next_ : 0;
}

const Extent& Log::extent_of(uint64_t sequence) const {
  const auto after = std::ranges::upper_bound(root_.log, sequence, {}, &Extent::sequence);
  VERBENA_CHECK(after != root_.log.begin());
  const Extent& extent = *std::prev(after);
  VERBENA_CHECK(sequence - extent.sequence < extent.count);
  return extent;
}

// An extent for more of the log; kLogFull if there is no room for one.
Result<void> Log::add_extent(Superblock& root) {
  const Error full{Code::kLogFull, "the log is full", {}};
  if (root.log.size() + root.checkpoint.size() >= kMaxExtents) return fail(full);
  // Where somebody removed without room, a small table is possible still.
  const uint64_t kept = std::max(kept_for(reserve_), promised_ + a_little());
  const uint64_t spare = log_space_.free_chunks() > kept ? log_space_.free_chunks() - kept : 0;
  const uint64_t want = std::min<uint64_t>(
      {spare, std::max<uint64_t>(kFirstExtent, length() / 2), log_space_.chunks_per_pair()});
  root.log.reserve(root.log.size() + 1);  // what can fail for want of memory comes first
  auto extent = want == 0 ? std::nullopt : log_space_.allocate(static_cast<uint32_t>(want));
  if (!extent) return fail(full);
  extent->sequence = next_ + slots_left(root);
  extent->txn = root.mark;
  root.log.push_back(*extent);
  return {};
}

// One more, which the superblocks name before it is used. Others append meanwhile, as long as there
// is room; nobody else changes the superblock.
Result<void> Log::extend() {
  Superblock root = root_;
  if (const auto added = add_extent(root); !added) return added;
  root.durable = durable_;
  ++root.generation;
  const auto done = [&]() VERBENA_REQUIRES(flushing_, mutex_) {
    const ScopedUnlock unlocked(mutex_);
    return write_root(root);
  }();
  if (done) root_ = std::move(root);
  return done;
}

Result<void> Log::grow() {
  if (!wants_room()) return {};
  const MutexLock flushing(flushing_);
  const ShortLock lock(mutex_);
  wants_room_.store(false, std::memory_order_relaxed);
  if (slots_left() > kLittleRoom) return {};
  const auto more = extend();
  return !more && more.error().code == Code::kLogFull ? Result<void>{} : more;
}

Result<void> Log::provide(uint64_t table_bytes) {
  const ShortLock lock(mutex_);
  table_bytes_ = table_bytes;
  return provide_locked(table_bytes);
}

// The next table, and what the one after it takes beyond the log that the next one sets free. (A
// record may be short and what it says long: a clone's.)
uint64_t Log::kept_for(uint64_t reserve) const {
  return promised_ + reserve + (reserve > length() ? reserve - length() : 0);
}

// Holds from here on: there are kept_for(reserve_) free chunks.
Result<void> Log::provide_locked(uint64_t table_bytes) {
  if (table_bytes == 0) return {};
  const uint64_t reserve = table_chunks_for(table_bytes);
  if (reserve <= reserve_) return {};
  while (log_space_.free_chunks() < kept_for(reserve) + a_little()) {
    const auto more = log_space_.grow();
    if (more) continue;
    // What the log has so far is room, after a checkpoint.
    if (more.error().code != Code::kFull || next_ == root_.replay_from) return more;
    return fail(Error{Code::kLogFull, "the log is full", {}});
  }
  if (root_.checkpoint.size() + reserve / log_space_.chunks_per_pair() > kMaxExtents * 2 / 3) {
    return fail(
        Error{Code::kFull, "the index is full: the store has the maximum number of segments", {}});
  }
  reserve_ = reserve;
  return {};
}

uint64_t Log::grown_by(std::initializer_list<Growth> growth) const {
  uint64_t bytes = 0;
  for (const Growth& one : growth) {
    const bool counted = one.counted_in.load(std::memory_order_relaxed) >= counted_since_;
    bytes += one.more + (counted ? 0 : one.whole);
  }
  return bytes;
}

// Not analysed: the mutex stays locked until the entry's end, which is the caller's.
Result<Log::Entry> Log::begin(size_t bytes, std::initializer_list<Growth> growth,
                              Room room) VERBENA_NO_THREAD_SAFETY {
  mutex_.lock();
  Entry entry(*this);
  if (const auto made = make_entry(bytes, growth, room); !made) return fail(made.error());
  return entry;
}

Result<void> Log::make_entry(size_t bytes, std::initializer_list<Growth> growth, Room room) {
  // The open chunk has a slot of its own, always.
  const uint64_t slots = chunks_for(bytes) + 1;
  for (;;) {
    // Counted with the same lock: two that come at once need room for both.
    const uint64_t table_bytes = table_bytes_ + grown_by(growth);
    const auto provided = provide_locked(table_bytes);
    if (!provided && room == Room::kNeeded) return fail(provided.error());
    if (slots_left() >= slots) {
      table_bytes_ = table_bytes;
      for (const Growth& one : growth) one.counted_in.store(period_, std::memory_order_relaxed);
      return {};
    }
    if (const auto more = extend_to(slots); !more) return more;
  }
}

Result<void> Log::extend_to(uint64_t slots) {
  // In this order.
  mutex_.unlock();
  const MutexLock flushing(flushing_);
  mutex_.lock();
  return slots_left() >= slots ? Result<void>{} : extend();
}

void Log::Entry::commit(uint64_t txn, uint64_t time_ns) {
  log_->mutex_.assert_held();
  log_->RecordStream::commit({txn, log_->durable_, time_ns});
  log_->watermark_ = log_->durable_;
}

uint64_t Log::table_chunks_for(uint64_t bytes) { return chunks_for(bytes) + 4; }

void Log::write_both(LogSpace::Slot a, LogSpace::Slot b, std::span<const uint8_t, kDataBytes> data,
                     size_t used, ChunkHead head) {
  const uint32_t crc = crc_zeros_after(crc_of(data.first(used)), kDataBytes - used);
  head.length = static_cast<uint16_t>(used);
  for (const auto& slot : {a, b}) {
    std::memcpy(slot.memory, data.data(), kDataBytes);
    head.id = slot.id;
    seal(slot.memory, head, crc);
  }
}

void Log::full() {
  const Extent& extent = extent_of(next_);
  const auto i = static_cast<uint32_t>(next_ - extent.sequence);
  ChunkHead head;
  head.birth = {0, next_, root_.mark};
  head.store = root_.store;
  head.flags = kFlagLog;
  write_both(log_space_.slot_a(extent, i), log_space_.slot_b(extent, i), data(), used(), head);
  ++next_;
  reset();
  if (length() > kCheckpointAfter) {
    wants_checkpoint_.store(true, std::memory_order_relaxed);
  }
  if (slots_left() <= kLittleRoom) wants_room_.store(true, std::memory_order_relaxed);
}

void Log::flush_sealed(uint64_t first, uint64_t end) {
  while (first < end) {
    const Extent& extent = extent_of(first);
    const auto i = static_cast<uint32_t>(first - extent.sequence);
    const auto count = std::min<uint64_t>(end - first, extent.count - i);
    persist_.flush(PersistPoint::kLogA, log_space_.slot_a(extent, i).memory, count * kChunkBytes);
    persist_.flush(PersistPoint::kLogB, log_space_.slot_b(extent, i).memory, count * kChunkBytes);
    first += count;
  }
}

Result<void> Log::flush() {
  const MutexLock flushing(flushing_);
  const ShortLock lock(mutex_);
  // What is freed by durable chunks waits for a chunk that says so.
  if (used() == 0 && watermark_ < durable_ && slots_left() > 1 && space_.any_pending()) {
    RecordStream::commit({0, durable_, 0});
    watermark_ = durable_;
  }
  return flush_locked();
}

Result<void> Log::flush_locked() {
  if (used() > 0) full();
  const uint64_t end = next_;
  const uint64_t recorded = watermark_;
  space_.sealed(end - 1);
  if (durable_ + 1 < end) {
    flush_sealed(durable_ + 1, end);
    const auto done = [&]() VERBENA_REQUIRES(mutex_) {
      const ScopedUnlock unlocked(mutex_);
      return persist_.fence(PersistPoint::kLogFence);
    }();
    if (!done) return done;
    durable_ = end - 1;
  }
  space_.durable(recorded);
  return {};
}

// The last of the log and one superblock become durable together. That one may be without the
// others then: it counts when the other superblock says the same.
Result<void> Log::close() {
  const MutexLock flushing(flushing_);
  const ShortLock lock(mutex_);
  if (used() > 0) full();
  flush_sealed(durable_ + 1, next_);
  Superblock root = root_;
  root.durable = durable_;
  root.end = next_;
  ++root.generation;
  if (const auto done = write_copy(root, false); !done) return done;
  if (const auto done = persist_.fence(PersistPoint::kCloseFirstFence); !done) return done;
  durable_ = next_ - 1;
  // Everything is durable without this one; only opening has more to look at.
  if (write_copy(root, true) && persist_.fence(PersistPoint::kCloseSecondFence))
    root_ = std::move(root);
  return {};
}

void Log::retract() {
  const MutexLock flushing(flushing_);
  const ShortLock lock(mutex_);
  for (uint64_t sequence = durable_ + 1; sequence < next_; ++sequence) {
    const Extent& extent = extent_of(sequence);
    const auto i = static_cast<uint32_t>(sequence - extent.sequence);
    for (const auto& slot : {log_space_.slot_a(extent, i), log_space_.slot_b(extent, i)}) {
      std::memset(slot.memory, 0, kChunkBytes);  // which is no chunk
      persist_.undo(slot.memory, kChunkBytes);
    }
  }
  static_cast<void>(persist_.undo_fence());
  if (tried_ <= root_.generation) return;
  // A superblock that was not finished may list a checkpoint with what failed. What the last one
  // listed is all there still. The copy that failed first: the other one is good.
  root_.generation = tried_ + 1;
  for (const bool copy_b : {trying_b_, !trying_b_}) {
    const auto memory = copy_b ? superblock_b_ : superblock_a_;
    encode(root_, copy_b ? root_.chunks_per_block : 0, memory);
    persist_.undo(memory.data(), kChunkBytes);
    if (!persist_.undo_fence()) return;
  }
}

}  // namespace verbena::store
