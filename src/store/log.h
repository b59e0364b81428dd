// SPDX-License-Identifier: Apache-2.0
// The log: all changes, in order, in chunks that are written once, in two copies. A chunk is open
// in memory until it is full or flushed; then both copies are written. The log also owns the
// superblocks, which contain the places of the log and of the last checkpoint.
//
//   tables' extents    | log extents: ... durable | sealed | [open chunk] | room
//                                              ^ durable_        ^ next_
//
// Thread-safe. Locks: flushing_ before mutex_ before those of the space. Whoever has mutex_ does
// not wait for the medium: superblocks are written and fences waited for with flushing_ alone.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "base/short_mutex.h"
#include "store/log_space.h"
#include "store/persist.h"
#include "store/record_stream.h"
#include "store/superblock.h"
#include "store/tables.h"

namespace verbena::store {

class Log final : private RecordStream {
 public:
  struct Checkpoint {
    const Table& newest;  // of what the tables do not say
    Tables& tables;       // those of the superblock; afterwards the new ones
    uint64_t next_number = 1;
    uint64_t index_bytes = 0;  // of all objects
    bool all = false;          // merge all of them: one has damaged copies
    // Log chunks before this one are in it, by cut(); none: all there are, and the open one too.
    std::optional<uint64_t> end{};
  };

  // Where a log that was read continues; a new one starts from the beginning. `space` is moved into
  // it.
  Log(Space& space, Persist& persist, LogSpace log_space, Superblock root, uint64_t next);

  // Before the first append: the mark of a new opening, in both superblocks. What the superblock
  // names behind next - 1 is dropped.
  [[nodiscard]] Result<void> start(uint64_t mark);
  // The same with a checkpoint: where the log ends within a chunk, or a copy of it is damaged.
  [[nodiscard]] Result<void> start_with_checkpoint(uint64_t mark, const Checkpoint& what);

  // What a change adds to the next table. What an object takes there is counted once.
  struct Growth {
    std::atomic<uint64_t>& counted_in;  // the object's: in which period it was last
    uint64_t whole = 0;                 // bytes, unless it was counted since the last checkpoint
    uint64_t more = 0;                  // and these
  };
  static constexpr uint64_t kFirstPeriod = 1;
  // At opening, before the first append: what the next table has of it already.
  [[nodiscard]] Result<void> provide(uint64_t table_bytes);

  // The right to append one transaction of up to `bytes`: the log's mutex, until it is destroyed.
  class Entry {
   public:
    Entry(Entry&& other) noexcept : log_(std::exchange(other.log_, nullptr)) {}
    Entry& operator=(Entry&&) = delete;
    ~Entry() {
      if (log_ != nullptr) log_->mutex_.unlock();
    }
    RecordStream* operator->() { return log_; }
    // Ends the transaction.
    void commit(uint64_t txn, uint64_t time_ns);

   private:
    friend class Log;
    explicit Entry(Log& log) : log_(&log) {}
    Log* log_;
  };
  // A checkpoint must always be possible, so there must be room for its table. kLogFull: a
  // checkpoint makes room. What frees space takes what there is.
  enum class Room : uint8_t { kNeeded, kPreferred };
  [[nodiscard]] Result<Entry> begin(size_t bytes, std::initializer_list<Growth> growth,
                                    Room room = Room::kNeeded);

  // All that was appended is durable, and what it freed is on its way.
  [[nodiscard]] Result<void> flush();
  // All that was appended is durable, and the superblocks say where the log ends.
  [[nodiscard]] Result<void> close();

  // Writes what changed since the last one as a table, merged with those that are not much larger,
  // and forgets the log before it. One at a time, and without `end` nothing is appended meanwhile.
  [[nodiscard]] Result<void> checkpoint(const Checkpoint& what);
  // Where a checkpoint begins that is written while the log goes on: what was appended so far is
  // durable, and in chunks of the log from root.replay_from up to `end`, which stay as they are
  // until checkpoint() has succeeded or give_up() was called.
  struct Cut {
    Superblock root;
    uint64_t end = 0;
  };
  [[nodiscard]] Result<Cut> cut();
  void give_up();
  // From here on nothing new goes into blocks from `limit` on, if there are others, and the next
  // checkpoint takes the log out of them; 0: anywhere again.
  void leave_from(uint32_t limit);
  // Blocks that log and tables take, with an index of so many bytes.
  [[nodiscard]] uint64_t blocks_for(uint64_t index_bytes) const;
  [[nodiscard]] uint64_t blocks_below(uint32_t limit) const;
  // Whether one would take a while to read.
  [[nodiscard]] bool is_long() const;
  // Whether a checkpoint is worthwhile.
  [[nodiscard]] bool wants_checkpoint() const {
    return wants_checkpoint_.load(std::memory_order_relaxed);
  }
  // Whether there is so little room that grow() is worthwhile, before somebody has to wait for it.
  // If there is none to be had, who needs it is told.
  [[nodiscard]] bool wants_room() const { return wants_room_.load(std::memory_order_relaxed); }
  [[nodiscard]] Result<void> grow();

  // After a sync has failed, when nothing else goes on: takes back what is not known to be durable,
  // so that the next opening does not find changes that were reported as failed. As well as it can
  // be: the medium may not take this either.
  void retract();

  // Keeps the log as it is on the medium, up to `end`: for whoever looks at it there.
  struct Hold {
    explicit Hold(Log& log)
        : flushing(log.flushing_), lock(log.mutex_), root(log.root_), end(log.durable_ + 1) {}
    const MutexLock flushing;
    const ShortLock lock;
    const Superblock& root;
    const uint64_t end;
  };
  [[nodiscard]] std::unique_ptr<Hold> hold() { return std::make_unique<Hold>(*this); }

  [[nodiscard]] Superblock root() const;

 private:
  static constexpr uint64_t kCheckpointAfter = 128;  // chunks of log, which opening the store reads
  static constexpr uint64_t kLittleRoom = 12;        // chunks

  class TableStream;
  class NewTable;
  // What a table of so many bytes takes: its first chunk and the ends of its sections, too.
  // (DELETEs for what older ones have are in what is reckoned for an object.)
  [[nodiscard]] static uint64_t table_chunks_for(uint64_t bytes);
  // An open chunk's data into both copies, under their numbers.
  static void write_both(LogSpace::Slot a, LogSpace::Slot b,
                         std::span<const uint8_t, kDataBytes> data, size_t used, ChunkHead head);
  void cut_log(Superblock& root, const Checkpoint& what, std::vector<Extent>& released) const
      VERBENA_REQUIRES(mutex_);
  [[nodiscard]] bool goes_on_in_left() const VERBENA_REQUIRES(mutex_);
  [[nodiscard]] Result<void> leave_extents() VERBENA_REQUIRES(flushing_, mutex_);
  [[nodiscard]] Result<void> replace_root(NewTable& table, const Checkpoint& what)
      VERBENA_EXCLUDES(flushing_, mutex_);
  [[nodiscard]] size_t worth_merging(const Checkpoint& what) const;
  [[nodiscard]] bool make_room_for(const Checkpoint& what, size_t merged) VERBENA_EXCLUDES(mutex_);
  // `promised`: of the chunks it takes, how many were kept for it.
  [[nodiscard]] Result<void> write_table(const Checkpoint& what, size_t merged,
                                         std::vector<Extent>& extents, uint64_t& promised);
  void full() override VERBENA_REQUIRES(mutex_);  // seals the open chunk
  [[nodiscard]] Result<void> provide_locked(uint64_t table_bytes) VERBENA_REQUIRES(mutex_);
  [[nodiscard]] uint64_t grown_by(std::initializer_list<Growth> growth) const
      VERBENA_REQUIRES(mutex_);
  // Room for the transaction, counted as taken. Without mutex_ while it waits.
  [[nodiscard]] Result<void> make_entry(size_t bytes, std::initializer_list<Growth> growth,
                                        Room room) VERBENA_REQUIRES(mutex_);
  // At least so many slots; likewise.
  [[nodiscard]] Result<void> extend_to(uint64_t slots) VERBENA_REQUIRES(mutex_);
  // Without mutex_ while it waits.
  [[nodiscard]] Result<void> extend() VERBENA_REQUIRES(flushing_, mutex_);
  [[nodiscard]] Result<void> add_extent(Superblock& root) VERBENA_REQUIRES(mutex_);
  enum class Order : uint8_t { kAThenB, kBThenA };
  [[nodiscard]] Result<void> write_root(const Superblock& root, Order order = Order::kAThenB)
      VERBENA_REQUIRES(flushing_);
  [[nodiscard]] Result<void> write_copy(const Superblock& root, bool copy_b)
      VERBENA_REQUIRES(flushing_);
  void begin_opening(uint64_t mark) VERBENA_REQUIRES(mutex_);
  [[nodiscard]] uint64_t slots_left(const Superblock& root) const VERBENA_REQUIRES(mutex_);
  [[nodiscard]] uint64_t slots_left() const VERBENA_REQUIRES(mutex_) { return slots_left(root_); }
  [[nodiscard]] const Extent& extent_of(uint64_t sequence) const VERBENA_REQUIRES(mutex_);
  void flush_sealed(uint64_t first, uint64_t end) VERBENA_REQUIRES(mutex_);
  [[nodiscard]] Result<void> flush_locked() VERBENA_REQUIRES(flushing_, mutex_);
  [[nodiscard]] uint64_t length() const VERBENA_REQUIRES(mutex_) {
    return next_ - root_.replay_from;
  }
  // For the log itself, between checkpoints.
  [[nodiscard]] uint64_t a_little() const { return std::min<uint64_t>(8, chunks_per_pair_ / 4); }
  // Free chunks that must stay so, if a checkpoint takes `reserve`.
  [[nodiscard]] uint64_t kept_for(uint64_t reserve) const VERBENA_REQUIRES(mutex_);

  Space& space_;
  Persist& persist_;
  const uint64_t chunks_per_pair_;
  // Their memory, in the first pair, which stays.
  const std::span<uint8_t, kChunkBytes> superblock_a_;
  const std::span<uint8_t, kChunkBytes> superblock_b_;
  Mutex flushing_;  // one flush, or change of the superblocks, at a time
  mutable ShortMutex mutex_;
  LogSpace log_space_ VERBENA_GUARDED_BY(mutex_);
  Superblock root_ VERBENA_GUARDED_BY(mutex_);
  // Generation of the last superblock begun, and which of the two was written last.
  uint64_t tried_ VERBENA_GUARDED_BY(flushing_) = 0;
  bool trying_b_ VERBENA_GUARDED_BY(flushing_) = false;
  uint64_t next_ VERBENA_GUARDED_BY(mutex_);           // sequence of the open chunk
  uint64_t durable_ VERBENA_GUARDED_BY(mutex_);        // of the last durable chunk
  uint64_t watermark_ VERBENA_GUARDED_BY(mutex_) = 0;  // highest in the records so far
  // Since the last checkpoint was begun.
  uint64_t period_ VERBENA_GUARDED_BY(mutex_) = kFirstPeriod;
  // What was counted then or later is in table_bytes_.
  uint64_t counted_since_ VERBENA_GUARDED_BY(mutex_) = kFirstPeriod;
  uint64_t cut_since_ VERBENA_GUARDED_BY(mutex_) =
      kFirstPeriod;                                      // the same for the one that was begun
  uint64_t table_bytes_ VERBENA_GUARDED_BY(mutex_) = 0;  // that the next one takes, at most
  uint64_t cut_bytes_ VERBENA_GUARDED_BY(mutex_) = 0;    // and the one that was begun
  uint64_t reserve_ VERBENA_GUARDED_BY(mutex_) = 0;      // chunks of the next one, at most
  // And of the one that was begun, as long as it has none.
  uint64_t promised_ VERBENA_GUARDED_BY(mutex_) = 0;
  // By this opening; the serial of the last one.
  uint64_t tables_begun_ VERBENA_GUARDED_BY(mutex_) = 0;
  bool opening_ VERBENA_GUARDED_BY(mutex_) =
      false;                                   // the next superblock is the first of this opening
  std::atomic<bool> wants_checkpoint_{false};  // hints; pair with nothing
  std::atomic<bool> wants_room_{false};
};

}  // namespace verbena::store
