// SPDX-License-Identifier: Apache-2.0
#include "store/superblock.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>
#include <string_view>

#include "base/check.h"
#include "base/endian.h"
#include "store/crc_parts.h"

namespace verbena::store {
namespace {

// At the very start, in every version: a program that knows neither can still say which it is.
constexpr std::string_view kMagic = "VERBENA STORE\n";
constexpr size_t kVersion = kMagic.size();

constexpr size_t kTag = kVersion + 4;
constexpr size_t kChunksPerBlock = kTag + 4;
constexpr size_t kMedia = kChunksPerBlock + 4;
constexpr size_t kGeneration = kMedia + 4;
constexpr size_t kMark = kGeneration + 8;
constexpr size_t kPrevious = kMark + 8;
constexpr size_t kCreated = kPrevious + 8;
constexpr size_t kReplayFrom = kCreated + 8;
constexpr size_t kDurable = kReplayFrom + 8;
constexpr size_t kEnd = kDurable + 8;
constexpr size_t kCheckpointCount = kEnd + 8;
constexpr size_t kLogCount = kCheckpointCount + 2;
constexpr size_t kExtents = kLogCount + 2;
constexpr size_t kExtentBytes = 4 + 4 + 2 + 2 + 8 + 8;
static_assert(kMaxExtents == (kDataBytes - kExtents) / kExtentBytes);

void write(const Extent& extent, uint8_t* p) {
  store_be32(p, extent.block_a);
  store_be32(p + 4, extent.block_b);
  store_be16(p + 8, extent.first);
  store_be16(p + 10, extent.count);
  store_be64(p + 12, extent.sequence);
  store_be64(p + 20, extent.txn);
}

[[nodiscard]] Extent read_extent(const uint8_t* p) {
  return {.block_a = load_be32(p),
          .block_b = load_be32(p + 4),
          .first = load_be16(p + 8),
          .count = load_be16(p + 10),
          .sequence = load_be64(p + 12),
          .txn = load_be64(p + 20)};
}

[[nodiscard]] bool sound(const Extent& extent, const Superblock& superblock) {
  const bool on_superblock = extent.first == 0 && std::min(extent.block_a, extent.block_b) < 2;
  return extent.block_a != extent.block_b && !on_superblock && extent.count > 0 &&
         extent.first + extent.count <= superblock.chunks_per_block &&
         extent.sequence <= std::numeric_limits<uint64_t>::max() - extent.count &&
         epoch_of(extent.txn) <= superblock.epoch();
}

[[nodiscard]] bool sound(const Superblock& superblock) {
  const auto all_sound = [&](const std::vector<Extent>& extents) {
    return std::ranges::all_of(extents, [&](const Extent& e) { return sound(e, superblock); });
  };
  return std::has_single_bit(superblock.chunks_per_block) &&
         superblock.chunks_per_block >= kMinChunksPerBlock &&
         superblock.chunks_per_block <= kMaxChunksPerBlock && superblock.media > 0 &&
         superblock.media <= kMaxMedia && superblock.replay_from > 0 &&
         superblock.durable >= superblock.replay_from - 1 &&
         (superblock.end == 0 || superblock.end > superblock.durable) &&
         superblock.checkpoint.size() + superblock.log.size() <= kMaxExtents &&
         all_sound(superblock.checkpoint) && all_sound(superblock.log);
}

[[nodiscard]] ChunkHead head_for(const Superblock& superblock, uint64_t id) {
  const size_t extents = superblock.checkpoint.size() + superblock.log.size();
  return {.id = id,
          .birth = {.owner = 0, .index = 0, .txn = superblock.mark},
          .store = superblock.store,
          .length = static_cast<uint16_t>(kExtents + extents * kExtentBytes),
          .flags = kFlagSuperblock};
}

}  // namespace

const char* name_of(SuperblockFault fault) {
  switch (fault) {
    case SuperblockFault::kChunk:   return "chunk";
    case SuperblockFault::kMagic:   return "magic";
    case SuperblockFault::kVersion: return "version";
    case SuperblockFault::kShape:   return "shape";
  }
  return "unknown";
}

void encode(const Superblock& superblock, uint64_t id, std::span<uint8_t, kChunkBytes> chunk) {
  VERBENA_CHECK(knows_version(superblock.version) && sound(superblock));
  VERBENA_CHECK(id == 0 || id == superblock.chunks_per_block);
  uint8_t* p = chunk.data();
  std::memset(p, 0, kDataBytes);
  std::memcpy(p, kMagic.data(), kMagic.size());
  store_be32(p + kVersion, superblock.version);
  store_be32(p + kTag, superblock.store);
  store_be32(p + kChunksPerBlock, superblock.chunks_per_block);
  store_be32(p + kMedia, superblock.media);
  store_be64(p + kGeneration, superblock.generation);
  store_be64(p + kMark, superblock.mark);
  store_be64(p + kPrevious, superblock.previous);
  store_be64(p + kCreated, superblock.created_ns);
  store_be64(p + kReplayFrom, superblock.replay_from);
  store_be64(p + kDurable, superblock.durable);
  store_be64(p + kEnd, superblock.end);
  store_be16(p + kCheckpointCount, static_cast<uint16_t>(superblock.checkpoint.size()));
  store_be16(p + kLogCount, static_cast<uint16_t>(superblock.log.size()));
  uint8_t* at = p + kExtents;
  for (const auto* extents : {&superblock.checkpoint, &superblock.log}) {
    for (const Extent& extent : *extents) {
      write(extent, at);
      at += kExtentBytes;
    }
  }
  seal(p, head_for(superblock, id), crc_of(chunk.first<kDataBytes>()));
}

verbena::Result<Superblock, SuperblockFault> decode_superblock(
    std::span<const uint8_t, kChunkBytes> chunk) {
  const uint8_t* p = chunk.data();
  const ChunkVerdict verdict = examine(chunk);
  if (verdict == ChunkVerdict::kCrc || verdict == ChunkVerdict::kDataCrc) {
    return fail(SuperblockFault::kChunk);
  }
  if (std::memcmp(p, kMagic.data(), kMagic.size()) != 0) return fail(SuperblockFault::kMagic);
  if (!knows_version(load_be32(p + kVersion))) return fail(SuperblockFault::kVersion);
  const ChunkHead head = head_of(p);
  if (verdict != ChunkVerdict::kGood || head.flags != kFlagSuperblock) {
    return fail(SuperblockFault::kChunk);
  }

  Superblock superblock{.version = load_be32(p + kVersion),
                        .store = load_be32(p + kTag),
                        .chunks_per_block = load_be32(p + kChunksPerBlock),
                        .media = load_be32(p + kMedia),
                        .generation = load_be64(p + kGeneration),
                        .mark = load_be64(p + kMark),
                        .previous = load_be64(p + kPrevious),
                        .created_ns = load_be64(p + kCreated),
                        .replay_from = load_be64(p + kReplayFrom),
                        .durable = load_be64(p + kDurable),
                        .end = load_be64(p + kEnd),
                        .checkpoint = {},
                        .log = {}};
  const size_t checkpoint = load_be16(p + kCheckpointCount);
  const size_t log = load_be16(p + kLogCount);
  if (checkpoint + log > kMaxExtents) return fail(SuperblockFault::kShape);
  for (size_t i = 0; i < checkpoint + log; ++i) {
    (i < checkpoint ? superblock.checkpoint : superblock.log)
        .push_back(read_extent(p + kExtents + i * kExtentBytes));
  }
  const bool in_place = head.id == 0 || head.id == superblock.chunks_per_block;
  if (!sound(superblock) || !in_place || head != head_for(superblock, head.id)) {
    return fail(SuperblockFault::kShape);
  }
  return superblock;
}

// A write may be interrupted anywhere: of each byte that changes, the old or the new one is there.
bool may_be_torn(std::span<const uint8_t, kChunkBytes> copy, uint64_t id, const Superblock& other) {
  if (!knows_version(load_be32(copy.data() + kVersion))) return false;
  // Of a closed store only its closing and the next opening, which adds one extent, can be
  // interrupted; a checkpoint may list any number of others.
  const size_t extents = other.checkpoint.size() + other.log.size();
  const size_t listed = other.closed() ? std::min(extents + 1, kMaxExtents) : kMaxExtents;
  struct Part {
    size_t begin;
    size_t end;
  };
  const std::array changing{Part{kVersion, kTag},  // a cache from then on
                            Part{kGeneration, kCreated},
                            Part{kReplayFrom, kExtents + listed * kExtentBytes},
                            Part{4072, 4080},  // txn
                            Part{4084, 4090},  // data_crc, length
                            Part{4092, 4096}};
  std::array<uint8_t, kChunkBytes> expected;
  encode(other, id, expected);
  for (const Part& part : changing) {
    std::memcpy(expected.data() + part.begin, copy.data() + part.begin, part.end - part.begin);
  }
  return std::memcmp(expected.data(), copy.data(), kChunkBytes) == 0;
}

}  // namespace verbena::store
