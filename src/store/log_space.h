// SPDX-License-Identifier: Apache-2.0
// Space for the log and its checkpoints: pairs of blocks. Each chunk is stored at the same place in
// both blocks of a pair. The first chunk of the first pair is the superblock. Guarded by the log's
// lock.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "store/space.h"
#include "store/superblock.h"

namespace verbena::store {

class LogSpace {
 public:
  explicit LogSpace(Space& space) : space_(space) {}

  // The pair of blocks 0 and 1, and at opening the others that a superblock names.
  [[nodiscard]] Result<void> claim(uint32_t block_a, uint32_t block_b);
  // At opening: these chunks are taken. False if they are already, or out of bounds.
  [[nodiscard]] bool take(const Extent& extent);
  // One more pair, from the space of data.
  [[nodiscard]] Result<void> grow();
  // Pairs that nothing is in, as long as `keep` chunks stay free.
  void shrink(uint64_t keep);

  // Nothing new goes into pairs of which a block lies at `limit` or behind; 0: all are of use
  // again.
  void leave_from(uint32_t limit);
  [[nodiscard]] bool leaves(const Extent& extent) const { return pair_of(extent)->left; }

  [[nodiscard]] uint64_t pairs_below(uint32_t limit) const;

  // Up to `want` chunks in one piece; none if there are none.
  [[nodiscard]] std::optional<Extent> allocate(uint32_t want);
  void release(const Extent& extent);

  [[nodiscard]] uint64_t free_chunks() const { return free_; }
  [[nodiscard]] uint64_t chunks_per_pair() const { return space_.chunks_per_block(); }
  // Memory of chunk i of an extent, and its number.
  struct Slot {
    uint8_t* memory = nullptr;
    uint64_t id = 0;
  };
  [[nodiscard]] Slot slot_a(const Extent& extent, uint32_t i) const;
  [[nodiscard]] Slot slot_b(const Extent& extent, uint32_t i) const;
  // In the first pair, which stays. Without the log's lock: pairs may be added meanwhile.
  [[nodiscard]] uint8_t* superblock_a() const { return superblock_a_; }
  [[nodiscard]] uint8_t* superblock_b() const { return superblock_b_; }

 private:
  struct Pair {
    uint32_t a = 0;
    uint32_t b = 0;
    uint8_t* memory_a = nullptr;
    uint8_t* memory_b = nullptr;
    uint32_t used = 0;
    std::vector<bool> taken;
    bool left = false;  // its free chunks are not counted
  };
  [[nodiscard]] const Pair* pair_of(const Extent& extent) const;
  void note_superblocks();

  Space& space_;
  std::vector<Pair> pairs_;
  uint8_t* superblock_a_ = nullptr;
  uint8_t* superblock_b_ = nullptr;
  uint64_t free_ = 0;
};

}  // namespace verbena::store
