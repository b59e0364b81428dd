// SPDX-License-Identifier: Apache-2.0
// Reads the chunks that a superblock lists: which chunks of the checkpoint and of the log are
// valid, in which copies, and up to where the log is known to be durable.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "store/error.h"
#include "store/superblock.h"

namespace verbena::store {

// A chunk's memory, by its number; null if there is none.
using ChunkMemory = std::function<const uint8_t*(uint64_t chunk)>;

struct LogChunk {
  bool table = false;  // of a table, not of the log
  uint64_t sequence = 0;
  const uint8_t* good = nullptr;  // the copy that is; null: none
  bool a = false;                 // which copies are good
  bool b = false;
  uint64_t chunk_a = 0;  // where they are
  uint64_t chunk_b = 0;
  bool differ = false;  // both are good, but do not say the same
  // A copy is a valid chunk of the log that another opening of this epoch or a later one wrote. No
  // crash leaves that: it came from another history of the store.
  bool foreign_a = false;
  bool foreign_b = false;
  [[nodiscard]] std::span<const uint8_t> records() const;
  // As reports have it.
  [[nodiscard]] const char* which() const { return table ? "checkpoint" : "log"; }
  [[nodiscard]] uint64_t number() const { return table ? number_in_table(sequence) : sequence; }
};

// Chunk i of an extent: is it one of the store with this tag? `flag` is kFlagLog or
// kFlagCheckpoint.
// kFirstGood: copy b only if copy a is not good, for who needs the records of a table alone. No two
// chunks of tables have the same identity, so what is good is what was written.
enum class Copies : uint8_t { kBoth, kFirstGood };
[[nodiscard]] LogChunk read_chunk(uint32_t store, uint32_t chunks_per_block, const Extent& extent,
                                  uint32_t i, uint16_t flag, const ChunkMemory& memory,
                                  Copies copies = Copies::kBoth);
// All chunks of these extents, in order. `flag` is kFlagLog or kFlagCheckpoint.
[[nodiscard]] std::vector<LogChunk> read_extents(const Superblock& root,
                                                 std::span<const Extent> extents, uint16_t flag,
                                                 const ChunkMemory& memory);
// The highest watermark in them, at least what the superblock says.
[[nodiscard]] uint64_t find_watermark(const Superblock& root, std::span<const LogChunk> chunks);

// The damage report for an invalid copy.
[[nodiscard]] Damage log_damage(const char* which, uint64_t chunk, uint64_t sequence);
[[nodiscard]] Damage copy_damage(const LogChunk& chunk, bool copy_b);
// What to say where the log, or a table, makes no sense.
[[nodiscard]] Error damaged_log(const std::string& what, Damage damage);
// And for a chunk whose copies are both valid but not the same.
[[nodiscard]] Damage copies_damage(const LogChunk& chunk);

}  // namespace verbena::store
