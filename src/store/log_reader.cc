// SPDX-License-Identifier: Apache-2.0
#include "store/log_reader.h"

#include <algorithm>
#include <variant>

#include <fmt/format.h>

#include "store/record.h"

namespace verbena::store {

std::span<const uint8_t> LogChunk::records() const {
  return {good, std::min<size_t>(head_of(good).length, kDataBytes)};
}

std::vector<LogChunk> read_extents(const Superblock& root, std::span<const Extent> extents,
                                   uint16_t flag, const ChunkMemory& memory) {
  std::vector<LogChunk> chunks;
  for (const Extent& extent : extents) {
    for (uint32_t i = 0; i < extent.count; ++i) {
      const auto is_good = [&](uint64_t chunk) {
        const uint8_t* const bytes = memory(chunk);
        if (bytes == nullptr) return false;
        // First what costs little: most of the room behind the end of the log is not ours.
        const ChunkHead head = head_of(bytes);
        return head.id == chunk && head.birth.owner == 0 &&
               head.birth.index == extent.sequence + i &&
               head.birth.txn == uint64_t{extent.epoch} << kEpochShift &&
               head.store == root.store && head.flags == flag &&
               examine(std::span<const uint8_t, kChunkBytes>(bytes, kChunkBytes)) ==
                   ChunkVerdict::kGood;
      };
      LogChunk found;
      found.sequence = extent.sequence + i;
      found.chunk_a = uint64_t{extent.block_a} * root.chunks_per_block + extent.first + i;
      found.chunk_b = uint64_t{extent.block_b} * root.chunks_per_block + extent.first + i;
      found.a = is_good(found.chunk_a);
      found.b = is_good(found.chunk_b);
      if (found.a || found.b) found.good = memory(found.a ? found.chunk_a : found.chunk_b);
      chunks.push_back(found);
    }
  }
  return chunks;
}

uint64_t find_watermark(const Superblock& root, std::span<const LogChunk> chunks) {
  uint64_t watermark = root.replay_from - 1;
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

verbena::Result<Superblock, SuperblockFault> read_root(std::span<const uint8_t, kChunkBytes> chunk,
                                                       uint32_t block) {
  auto root = decode_superblock(chunk);
  if (root && head_of(chunk.data()).id != uint64_t{block} * root->chunks_per_block) {
    return fail(SuperblockFault::kShape);
  }
  return root;
}

Damage root_damage(uint64_t chunk) {
  return {{}, 0, chunk, "superblock", "a valid superblock", "not valid"};
}

namespace {

// Not one before and one after a change of one store.
bool contradict(const Superblock& a, const Superblock& b) {
  return a.store != b.store || a.chunks_per_block != b.chunks_per_block || a.media != b.media ||
         a.created_ns != b.created_ns || (a.generation == b.generation && a != b);
}

}  // namespace

Result<Roots> read_roots(std::span<const uint8_t, kChunkBytes> a,
                         std::span<const uint8_t, kChunkBytes> b, const Vouch& vouch) {
  const auto first = read_root(a, 0);
  const auto second = read_root(b, 1);
  Roots roots;
  roots.a = first.has_value();
  roots.b = second.has_value();
  if (roots.a && roots.b && vouch && contradict(*first, *second)) {
    const bool take_b = vouch(*second) > vouch(*first);
    (take_b ? roots.a : roots.b) = false;
  }
  if (roots.a && (!roots.b || first->generation >= second->generation)) {
    roots.root = *first;
    roots.newest_a = true;
    roots.newest_b = roots.b && first->generation == second->generation;
    return roots;
  }
  if (roots.b) {
    roots.root = *second;
    roots.newest_b = true;
    return roots;
  }
  if (first.error() == SuperblockFault::kVersion || second.error() == SuperblockFault::kVersion) {
    return fail(
        Error{Code::kVersion,
              "the store has a format version that this program does not support; use a newer "
              "version of verbena",
              {}});
  }
  if (first.error() == SuperblockFault::kMagic && second.error() == SuperblockFault::kMagic) {
    return fail(
        Error{Code::kNoStore, "not a store: the superblocks have the wrong magic number", {}});
  }
  return fail(Error{Code::kDamaged,
                    fmt::format("both superblocks are damaged ({}, {}); `verbena salvage` builds a "
                                "new store from what can be read",
                                name_of(first.error()), name_of(second.error())),
                    {{}, 0, 0, "superblock", "a superblock", name_of(first.error())}});
}

}  // namespace verbena::store
