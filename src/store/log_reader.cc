// SPDX-License-Identifier: Apache-2.0
#include "store/log_reader.h"

#include <algorithm>
#include <cstring>
#include <variant>

#include <fmt/format.h>

#include "store/record.h"

namespace verbena::store {

std::span<const uint8_t> LogChunk::records() const {
  return {good, std::min<size_t>(head_of(good).length, kDataBytes)};
}

namespace {

enum class CopyState : uint8_t { kNone, kGood, kForeign };

CopyState state_of(const uint8_t* bytes, uint64_t chunk, uint32_t store, const Extent& extent,
                   uint64_t sequence, uint16_t flag) {
  if (bytes == nullptr) return CopyState::kNone;
  // First what costs little: most of the room behind the end of the log is not ours.
  const ChunkHead head = head_of(bytes);
  const bool own = head.birth.txn == extent.txn;
  if (head.id != chunk || head.birth.owner != 0 || head.store != store || head.flags != flag ||
      (own ? head.birth.index != sequence : epoch_of(head.birth.txn) < epoch_of(extent.txn)) ||
      examine(std::span<const uint8_t, kChunkBytes>(bytes, kChunkBytes)) != ChunkVerdict::kGood) {
    return CopyState::kNone;
  }
  return own ? CopyState::kGood : CopyState::kForeign;
}

// But for id and crc32.
bool same_copies(const uint8_t* a, const uint8_t* b) {
  constexpr size_t kBehindId = kDataBytes + 8;
  return std::memcmp(a, b, kDataBytes) == 0 &&
         std::memcmp(a + kBehindId, b + kBehindId, kChunkBytes - 4 - kBehindId) == 0;
}

}  // namespace

LogChunk read_chunk(uint32_t store, uint32_t chunks_per_block, const Extent& extent, uint32_t i,
                    uint16_t flag, const ChunkMemory& memory, Copies copies) {
  LogChunk found;
  found.table = flag == kFlagCheckpoint;
  found.sequence = extent.sequence + i;
  found.chunk_a = uint64_t{extent.block_a} * chunks_per_block + extent.first + i;
  found.chunk_b = uint64_t{extent.block_b} * chunks_per_block + extent.first + i;
  const auto state = [&](uint64_t chunk) {
    return state_of(memory(chunk), chunk, store, extent, found.sequence, flag);
  };
  const CopyState a = state(found.chunk_a);
  found.a = a == CopyState::kGood;
  if (found.a && copies == Copies::kFirstGood) {
    found.good = memory(found.chunk_a);
    return found;
  }
  const CopyState b = state(found.chunk_b);
  found.b = b == CopyState::kGood;
  found.foreign_a = a == CopyState::kForeign;
  found.foreign_b = b == CopyState::kForeign;
  if (found.a || found.b) found.good = memory(found.a ? found.chunk_a : found.chunk_b);
  found.differ = found.a && found.b && !same_copies(memory(found.chunk_a), memory(found.chunk_b));
  return found;
}

std::vector<LogChunk> read_extents(const Superblock& root, std::span<const Extent> extents,
                                   uint16_t flag, const ChunkMemory& memory) {
  std::vector<LogChunk> chunks;
  for (const Extent& extent : extents) {
    for (uint32_t i = 0; i < extent.count; ++i) {
      chunks.push_back(read_chunk(root.store, root.chunks_per_block, extent, i, flag, memory));
    }
  }
  return chunks;
}

uint64_t find_watermark(const Superblock& root, std::span<const LogChunk> chunks) {
  uint64_t watermark = root.durable;
  for (const LogChunk& chunk : chunks) {
    if (chunk.good == nullptr) continue;
    RecordReader reader(chunk.records());
    while (!reader.done()) {
      const auto record = reader.next();
      if (!record) break;
      const auto* const commit = std::get_if<CommitRecord>(&*record);
      // A chunk cannot know of itself.
      if (commit != nullptr && commit->watermark < chunk.sequence) {
        watermark = std::max(watermark, commit->watermark);
      }
    }
  }
  return watermark;
}

Damage log_damage(const char* which, uint64_t chunk, uint64_t sequence) {
  return {{},
          sequence * kChunkBytes,
          chunk,
          which,
          fmt::format("chunk {} of the log", sequence),
          "not valid"};
}

Damage copy_damage(const LogChunk& chunk, bool copy_b) {
  const uint64_t place = copy_b ? chunk.chunk_b : chunk.chunk_a;
  Damage damage = log_damage(chunk.which(), place, chunk.number());
  if (chunk.table) {
    damage.expected = fmt::format("chunk {} of table {} that its opening wrote", chunk.number(),
                                  table_serial(chunk.sequence));
  }
  return damage;
}

Error damaged_log(const std::string& what, Damage damage) {
  return {Code::kDamaged,
          "both copies of the log are damaged: " + what +
              "; `verbena salvage` builds a new store from what can be read",
          std::move(damage)};
}

Damage copies_damage(const LogChunk& chunk) {
  return {{},
          chunk.number() * kChunkBytes,
          chunk.chunk_b,
          chunk.which(),
          fmt::format("the same as its other copy, chunk {}", chunk.chunk_a),
          "different records"};
}

}  // namespace verbena::store
