// SPDX-License-Identifier: Apache-2.0
// Reads the chunks that a superblock lists: which chunks of the checkpoint and of the log are
// valid, in which copies, and up to where the log is known to be durable.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "store/error.h"
#include "store/superblock.h"

namespace verbena::store {

// A chunk's memory, by its number; null if there is none.
using ChunkMemory = std::function<const uint8_t*(uint64_t chunk)>;

struct LogChunk {
  uint64_t sequence = 0;
  const uint8_t* good = nullptr;  // the copy that is; null: none
  bool a = false;                 // which copies are good
  bool b = false;
  uint64_t chunk_a = 0;  // where they are
  uint64_t chunk_b = 0;
  [[nodiscard]] std::span<const uint8_t> records() const;
};

// All chunks of these extents, in order. `flag` is kFlagLog or kFlagCheckpoint.
[[nodiscard]] std::vector<LogChunk> read_extents(const Superblock& root,
                                                 std::span<const Extent> extents, uint16_t flag,
                                                 const ChunkMemory& memory);
// The highest watermark in them, at least replay_from - 1.
[[nodiscard]] uint64_t find_watermark(const Superblock& root, std::span<const LogChunk> chunks);

// The damage report for an invalid copy.
[[nodiscard]] Damage log_damage(const char* which, uint64_t chunk, uint64_t sequence);

// How many chunks that a superblock names are its own: which of two that contradict each other (one
// came from another store, maybe with some of its chunks) is right.
using Vouch = std::function<uint64_t(const Superblock& root)>;

// The better of two superblocks; which of them were good.
struct Roots {
  Superblock root;
  bool a = false;  // is one
  bool b = false;
  bool newest_a = false;  // and it is `root`
  bool newest_b = false;
};
[[nodiscard]] Result<Roots> read_roots(std::span<const uint8_t, kChunkBytes> a,
                                       std::span<const uint8_t, kChunkBytes> b,
                                       const Vouch& vouch = {});
// One of them, where it belongs: at the beginning of block 0 or of block 1.
[[nodiscard]] verbena::Result<Superblock, SuperblockFault> read_root(
    std::span<const uint8_t, kChunkBytes> chunk, uint32_t block);
[[nodiscard]] Damage root_damage(uint64_t chunk);

}  // namespace verbena::store
