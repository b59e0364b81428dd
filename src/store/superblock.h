// SPDX-License-Identifier: Apache-2.0
// The superblock: the root from which a store is opened. Kept twice, at the first chunk of block 0
// and of block 1, and written one after the other, so that one of them is always whole.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "store/chunk.h"

namespace verbena::store {

inline constexpr uint32_t kFormatVersion = 3;
// Of a store that is a cache, or was one: what is behind it is in its log. Otherwise the same.
inline constexpr uint32_t kCacheVersion = 4;
[[nodiscard]] constexpr bool knows_version(uint32_t version) {
  return version == kFormatVersion || version == kCacheVersion;
}
inline constexpr uint32_t kMinChunksPerBlock = 16;
inline constexpr uint32_t kMaxChunksPerBlock = 2048;
inline constexpr uint32_t kMaxMedia = 1024;
// A transaction is epoch << kEpochShift | ticket.
inline constexpr uint32_t kEpochShift = 40;
inline constexpr uint32_t kMaxEpoch = (1u << (64 - kEpochShift)) - 1;
[[nodiscard]] constexpr uint32_t epoch_of(uint64_t txn) {
  return static_cast<uint32_t>(txn >> kEpochShift);
}

// A piece of the log or of a checkpoint: the same chunks [first, first + count) of two blocks,
// which are not the same block. Copy a holds chunk numbers block_a * chunks_per_block + first + i;
// b likewise.
struct Extent {
  uint32_t block_a = 0;
  uint32_t block_b = 0;
  uint16_t first = 0;
  uint16_t count = 0;
  // Of its first chunk: `index` counts up from here. Of a table: table_sequence(serial, number).
  uint64_t sequence = 0;
  uint64_t txn = 0;  // mark of the opening that wrote it; its epoch at most the superblock's
  bool operator==(const Extent&) const = default;
};
inline constexpr size_t kMaxExtents = 141;  // that fit a superblock; of log and checkpoint together

// `index` of a table's chunk is serial << 24 | number: tables of one opening, those that no
// superblock lists too, have serials from 1, and so no two chunks with one mark have one index. A
// chunk that a lost write has left from another table is thereby not valid.
inline constexpr uint32_t kTableNumberBits = 24;
inline constexpr uint64_t kMaxTableSerial = (uint64_t{1} << (64 - kTableNumberBits)) - 1;
static_assert(kMaxExtents * kMaxChunksPerBlock < uint64_t{1} << kTableNumberBits);
[[nodiscard]] constexpr uint64_t table_sequence(uint64_t serial, uint64_t number) {
  return serial << kTableNumberBits | number;
}
[[nodiscard]] constexpr uint64_t table_serial(uint64_t sequence) {
  return sequence >> kTableNumberBits;
}
[[nodiscard]] constexpr uint64_t number_in_table(uint64_t sequence) {
  return sequence & ((uint64_t{1} << kTableNumberBits) - 1);
}

struct Superblock {
  uint32_t version = kFormatVersion;
  uint32_t store = 0;             // the store's random tag
  uint32_t chunks_per_block = 0;  // a power of two within the bounds above
  uint32_t media = 1;             // over how many media blocks are dealt
  uint64_t generation = 0;        // counts up by one; roots.h says which of two holds
  // Of the last opening for writing: its epoch, and as ticket the random number that its tickets
  // count up from. Two histories of one store (a copy was written to) have different marks.
  uint64_t mark = 0;
  uint64_t previous = 0;  // the mark of the opening before; 0: there was none
  uint64_t created_ns = 0;
  uint64_t replay_from = 1;  // the first log chunk that the checkpoint does not contain
  uint64_t durable = 0;      // log chunks up to this one were durable, with their data
  uint64_t end = 0;          // closed: the log ends before this chunk; 0: not closed
  std::vector<Extent> checkpoint;
  std::vector<Extent> log;  // the last one may be filled in part
  [[nodiscard]] uint32_t epoch() const { return epoch_of(mark); }
  [[nodiscard]] bool closed() const { return end != 0; }
  bool operator==(const Superblock&) const = default;
};

enum class SuperblockFault : uint8_t {
  kChunk,  // not a whole chunk of ours: the CRCs, the length or the flags
  kMagic,
  kVersion,  // of a format unknown here
  kShape,    // numbers that make no sense
};
[[nodiscard]] const char* name_of(SuperblockFault fault);

// Whether a copy that is not valid may be one whose writing was interrupted, given the valid other
// copy: it differs from that only where two successive superblocks of a store may.
[[nodiscard]] bool may_be_torn(std::span<const uint8_t, kChunkBytes> copy, uint64_t id,
                               const Superblock& other);

// Writes the whole chunk; `id` is where: 0, or chunks_per_block. What decode_superblock would
// refuse may not be written: that is checked.
void encode(const Superblock& superblock, uint64_t id, std::span<uint8_t, kChunkBytes> chunk);
[[nodiscard]] verbena::Result<Superblock, SuperblockFault> decode_superblock(
    std::span<const uint8_t, kChunkBytes> chunk);

}  // namespace verbena::store
