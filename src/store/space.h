// SPDX-License-Identifier: Apache-2.0
// Allocates chunks and counts their references. Chunks come in blocks from the medium; references
// are the mappings of objects, and pins (readers, transfers, writes not yet committed).
//
// A chunk without references is *pending*: it is not reused before a durable log chunk states that
// the log chunk which freed it is durable, too. Otherwise recovery could find other data in it and
// take an acknowledged write for an incomplete one.
//
//   drop() -> young -> [sealed into the log] -> sealed -> [durable] -> old -> [that on record] ->
//   free
//
// Of what a checkpoint has recovery needs no log: sealed and old ones are *covered* when it is
// begun, and free when it is durable.
//
// Nothing here allocates memory after a block was taken, so dropping cannot fail. Thread-safe.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/short_mutex.h"
#include "medium/backend.h"
#include "store/chunk.h"
#include "store/error.h"

namespace verbena::store {

// Consecutive chunks of one block.
struct Piece {
  uint64_t chunk = 0;
  uint32_t count = 0;
};

class Space {
  static constexpr uint32_t kPageBlocks = 1024;
  static constexpr uint32_t kPages = 4096;

 public:
  static constexpr uint32_t kMaxBlocks = kPages * kPageBlocks;
  // logged: whether pending chunks wait for the log; without one they are free at once.
  Space(medium::Backend& backend, uint32_t chunks_per_block, bool logged);
  ~Space();

  [[nodiscard]] uint32_t chunks_per_block() const { return per_block_; }
  // Of a chunk in a block that is held.
  [[nodiscard]] uint8_t* memory(uint64_t chunk) const;
  // Whether the chunks lie in one block of data that is held: for numbers from a log.
  [[nodiscard]] bool holds(uint64_t chunk, uint32_t count) const;
  // Of a store that is only read: blocks that the medium has lost are zeros from now on, which no
  // chunk is, and every other chunk can still be read.
  void lack();
  [[nodiscard]] bool lacks(uint64_t chunk) const {
    return lost_ != nullptr && block(chunk >> shift_) == lost_.get();
  }
  // Whether the medium could not give it: zeros are in its place.
  [[nodiscard]] bool unreadable(uint64_t chunk) const {
    return backend_.unreadable(memory(chunk), kChunkBytes);
  }
  // Makes memory show what the medium holds, for backends that load on demand.
  [[nodiscard]] Result<void> load(uint64_t chunk, uint32_t count) const {
    return on_demand_ ? load_slowly(chunk, count) : Result<void>{};
  }

  // Appends pieces of `want` chunks together, each with one reference; all or none. The last few
  // are kept for those that make room (truncation, which may have to write one).
  enum class Purpose : uint8_t { kGrow, kShrink };
  [[nodiscard]] Result<void> allocate(uint64_t want, std::vector<Piece>& pieces,
                                      Purpose purpose = Purpose::kGrow);
  // The same, of blocks below `limit` alone, the first ones first. *from: where to look from, which
  // is moved on.
  [[nodiscard]] Result<void> allocate_below(uint32_t limit, uint32_t* from, uint64_t want,
                                            std::vector<Piece>& pieces);
  // From here on nothing new goes into blocks of data from `limit` on, as long as there is space
  // elsewhere, and they are the medium's again when nothing is in them; 0: anywhere again.
  void leave_from(uint32_t limit);
  // Chunks that were never in the log: free at once.
  void give_back(const Piece& piece);
  void add(uint64_t chunk, uint32_t count);
  void drop(uint64_t chunk, uint32_t count);
  [[nodiscard]] bool any_shared(uint64_t chunk, uint32_t count) const;

  // What is young now is freed by log chunks up to `sequence`.
  void sealed(uint64_t sequence);
  // Log chunks up to the last sealed() are durable, and say that those up to `recorded` are.
  void durable(uint64_t recorded);
  // A checkpoint is durable: nothing in the log counts any more.
  void forget();
  // The same for one that is written while the log goes on. cover(): it will have what the last
  // sealed() was told of. Then it is durable, or it was not written.
  void cover();
  void forget_covered();
  void uncover();
  [[nodiscard]] bool any_pending() const;

  // At opening: takes a block with the references counted from zero, all its chunks free.
  [[nodiscard]] Result<void> claim_data(uint32_t position);
  // One more reference to chunks of a claimed block, the first one or another.
  void count(uint64_t chunk, uint32_t count);
  [[nodiscard]] Result<uint8_t*> claim_log(uint32_t position);
  // A fresh block for the log, not of use for data until given back.
  [[nodiscard]] Result<medium::Block> allocate_log();
  // Whether there is so little free in the blocks that are held that grow() is worthwhile, which
  // asks the medium for more while others go on. If it has none, who needs it is told.
  [[nodiscard]] bool low() const { return low_.load(std::memory_order_relaxed); }
  void grow();
  void release_log(uint32_t position);

  struct Numbers {
    uint64_t capacity = 0;
    uint64_t used = 0;
    uint64_t pending = 0;
    uint64_t log = 0;
  };
  [[nodiscard]] Numbers numbers() const;

 private:
  struct Block;
  using Page = std::array<std::atomic<Block*>, kPageBlocks>;

  [[nodiscard]] Block* block(uint64_t position) const;
  [[nodiscard]] Block* held_block(uint64_t position) const;
  [[nodiscard]] bool is_lost(uint32_t position) const {
    return lost_ != nullptr && !backend_.has(position);
  }
  [[nodiscard]] Block& block_of(uint64_t chunk) const { return *block(chunk >> shift_); }
  [[nodiscard]] uint32_t inside(uint64_t chunk) const {
    return static_cast<uint32_t>(chunk) & (per_block_ - 1);
  }
  [[nodiscard]] Result<Block*> adopt(medium::Result<medium::Block> taken, bool log)
      VERBENA_REQUIRES(mutex_);
  [[nodiscard]] Result<void> load_slowly(uint64_t chunk, uint32_t count) const;
  [[nodiscard]] Result<void> make_room(uint64_t want, Purpose purpose) VERBENA_REQUIRES(mutex_);
  [[nodiscard]] bool take_warm(uint64_t want, std::vector<Piece>& pieces) VERBENA_REQUIRES(mutex_);
  void free_again(const Piece& piece) VERBENA_REQUIRES(mutex_);
  void take_from(Block& block, uint64_t& want, std::vector<Piece>& pieces) VERBENA_REQUIRES(mutex_);
  void put_back(Block& block, const uint64_t* bits, uint32_t word, uint32_t end)
      VERBENA_REQUIRES(mutex_);
  void link(Block& block) VERBENA_REQUIRES(mutex_);
  void unlink(Block& block) VERBENA_REQUIRES(mutex_);
  void more_free(Block& block, uint32_t chunks) VERBENA_REQUIRES(mutex_);
  void less_free(Block& block, uint32_t chunks) VERBENA_REQUIRES(mutex_);
  void leave(Block& block, bool left) VERBENA_REQUIRES(mutex_);
  void leave_from_locked(uint32_t limit) VERBENA_REQUIRES(mutex_);
  // One more block before those that are left. False: there is none that is free.
  [[nodiscard]] bool adopt_before_left() VERBENA_REQUIRES(mutex_);
  void give_up_empty(Block& block) VERBENA_REQUIRES(mutex_);
  void give_up(Block& block) VERBENA_REQUIRES(mutex_);
  void unhold(Block& block) VERBENA_REQUIRES(mutex_);
  template <typename Each>
  void settle_pending(Each each) VERBENA_REQUIRES(mutex_);

  medium::Backend& backend_;
  const uint32_t per_block_;
  const uint32_t shift_;
  const bool logged_;
  const bool on_demand_;
  std::array<std::atomic<Page*>, kPages> pages_{};  // written under mutex_, read by anyone

  mutable ShortMutex mutex_;
  std::vector<std::unique_ptr<Block>> held_ VERBENA_GUARDED_BY(mutex_);
  std::vector<std::unique_ptr<Page>> page_memory_ VERBENA_GUARDED_BY(mutex_);
  std::unique_ptr<Block> lost_;  // stands for all that the medium lacks
  std::vector<uint8_t> lost_memory_;
  // Ring of data blocks with free chunks; allocation goes on from here.
  Block* open_ VERBENA_GUARDED_BY(mutex_) = nullptr;
  // Single chunks that became free last, if they still are: a stack that forgets its bottom.
  static constexpr uint32_t kWarm = 64;
  std::array<uint64_t, kWarm> warm_ VERBENA_GUARDED_BY(mutex_){};
  uint32_t warm_count_ VERBENA_GUARDED_BY(mutex_) = 0;
  Block* pending_ VERBENA_GUARDED_BY(mutex_) = nullptr;  // list of blocks with pending chunks
  // Chunks in data blocks, but for those that are left.
  uint64_t free_ VERBENA_GUARDED_BY(mutex_) = 0;
  uint64_t left_free_ VERBENA_GUARDED_BY(mutex_) = 0;  // and in these
  uint32_t left_from_ VERBENA_GUARDED_BY(mutex_) = 0;  // where they begin; 0: none is left
  // All blocks before are held, or the medium does not have them.
  uint32_t look_from_ VERBENA_GUARDED_BY(mutex_) = 0;
  std::atomic<bool> low_{false};
  // Of data and not left, all of whose chunks are free.
  uint64_t empty_blocks_ VERBENA_GUARDED_BY(mutex_) = 0;
  uint64_t data_blocks_ VERBENA_GUARDED_BY(mutex_) = 0;
  uint64_t log_blocks_ VERBENA_GUARDED_BY(mutex_) = 0;
  uint64_t young_ VERBENA_GUARDED_BY(mutex_) = 0;  // pending, by state
  uint64_t sealed_ VERBENA_GUARDED_BY(mutex_) = 0;
  uint64_t old_ VERBENA_GUARDED_BY(mutex_) = 0;
  uint64_t sealed_by_ VERBENA_GUARDED_BY(mutex_) = 0;  // the log chunk up to which it says so
  uint64_t old_by_ VERBENA_GUARDED_BY(mutex_) = 0;
  // Pending, and in the checkpoint that is being written.
  uint64_t covered_ VERBENA_GUARDED_BY(mutex_) = 0;
  uint64_t covered_by_ VERBENA_GUARDED_BY(mutex_) = 0;
};

}  // namespace verbena::store
