// SPDX-License-Identifier: Apache-2.0
#include "store/superblock.h"

#include <array>
#include <cstring>

#include <gtest/gtest.h>

#include "base/endian.h"
#include "base/random.h"
#include "store/crc_parts.h"

namespace verbena::store {
namespace {

using Chunk = std::array<uint8_t, kChunkBytes>;

// Where fields are in the chunk.
constexpr size_t kVersionAt = 14;
constexpr size_t kStoreAt = 18;
constexpr size_t kChunksPerBlockAt = 22;
constexpr size_t kMediaAt = 26;
constexpr size_t kMarkAt = 38;
constexpr size_t kReplayFromAt = 62;
constexpr size_t kDurableAt = 70;
constexpr size_t kEndAt = 78;
constexpr size_t kCheckpointCountAt = 86;
constexpr size_t kLogCountAt = 88;
constexpr size_t kExtentsAt = 90;
constexpr size_t kExtentBytes = 28;

// A mark of this epoch.
constexpr uint64_t mark_of(uint64_t epoch, uint64_t ticket = 77) {
  return epoch << kEpochShift | ticket;
}

Superblock sample() {
  return {
      .version = kFormatVersion,
      .store = 0xc0ffee11,
      .chunks_per_block = 2048,
      .media = 2,
      .generation = 9,
      .mark = mark_of(5),
      .previous = mark_of(4),
      .created_ns = 1'700'000'000'000'000'000,
      .replay_from = 40,
      .durable = 103,
      .end = 0,
      .checkpoint = {{.block_a = 2,
                      .block_b = 3,
                      .first = 0,
                      .count = 2048,
                      .sequence = 0,
                      .txn = mark_of(4)}},
      .log = {
          {.block_a = 0, .block_b = 1, .first = 1, .count = 64, .sequence = 40, .txn = mark_of(4)},
          {.block_a = 9,
           .block_b = 8,
           .first = 2047,
           .count = 1,
           .sequence = 104,
           .txn = mark_of(5)}}};
}

Chunk encoded(const Superblock& superblock, uint64_t id = 0) {
  Chunk chunk;
  chunk.fill(0xee);
  encode(superblock, id, chunk);
  return chunk;
}

// Right CRCs over whatever is there.
void seal_root(Chunk& chunk, ChunkHead head) {
  seal(chunk.data(), head, crc_of(std::span(chunk).first<kDataBytes>()));
}
void seal_root(Chunk& chunk) { seal_root(chunk, head_of(chunk.data())); }

SuperblockFault fault(const Chunk& chunk) {
  const auto superblock = decode_superblock(chunk);
  EXPECT_FALSE(superblock);
  return superblock ? SuperblockFault{255} : superblock.error();
}

template <typename T>
Chunk with(size_t at, T value, Chunk chunk = encoded(sample())) {
  store_be<T>(chunk.data() + at, value);
  seal_root(chunk);
  return chunk;
}

TEST(Superblock, RoundTrip) {
  for (const uint64_t id : {0, 2048}) {
    const Chunk chunk = encoded(sample(), id);
    EXPECT_EQ(examine(chunk), ChunkVerdict::kGood);
    EXPECT_EQ(head_of(chunk.data()), (ChunkHead{.id = id,
                                                .birth = {0, 0, mark_of(5)},
                                                .store = 0xc0ffee11,
                                                .length = 90 + 3 * 28,
                                                .flags = kFlagSuperblock}));
    const auto again = decode_superblock(chunk);
    ASSERT_TRUE(again);
    EXPECT_EQ(*again, sample());
    EXPECT_EQ(encoded(*again, id), chunk);
  }
}

TEST(Superblock, BeginsWithMagicAndVersion) {
  const Chunk chunk = encoded(sample());
  EXPECT_EQ(std::memcmp(chunk.data(), "VERBENA STORE\n\0\0\0\3", 18), 0);
}

TEST(Superblock, Smallest) {
  Superblock superblock;
  superblock.chunks_per_block = kMinChunksPerBlock;
  const auto again = decode_superblock(encoded(superblock, kMinChunksPerBlock));
  ASSERT_TRUE(again);
  EXPECT_EQ(*again, superblock);
}

TEST(Superblock, AsManyExtentsAsFit) {
  SeededRandom random(1);
  for (const size_t checkpoint : {size_t{0}, size_t{1}, size_t{80}, kMaxExtents}) {
    Superblock superblock = sample();
    superblock.checkpoint.clear();
    superblock.log.clear();
    for (size_t i = 0; i < kMaxExtents; ++i) {
      auto& to = i < checkpoint ? superblock.checkpoint : superblock.log;
      const auto block = static_cast<uint32_t>(random.next()) | 1;
      const auto first = static_cast<uint16_t>(1 + random.below(2047));
      to.push_back({.block_a = block,
                    .block_b = block - 1,
                    .first = first,
                    .count = static_cast<uint16_t>(2048 - first),
                    .sequence = random.next() >> 1,
                    .txn = mark_of(random.below(6), random.below(uint64_t{1} << 40))});
    }
    const Chunk chunk = encoded(superblock);
    const auto again = decode_superblock(chunk);
    ASSERT_TRUE(again);
    EXPECT_EQ(*again, superblock);
    EXPECT_GT(head_of(chunk.data()).length + kExtentBytes, kDataBytes) << "one more would fit";

    EXPECT_EQ(fault(with<uint16_t>(kLogCountAt, static_cast<uint16_t>(kMaxExtents + 1 - checkpoint),
                                   chunk)),
              SuperblockFault::kShape);
  }
}

TEST(SuperblockDeathTest, WhatCannotBeReadIsNotWritten) {
  Chunk chunk;
  Superblock superblock = sample();
  EXPECT_DEATH(encode(superblock, 1, chunk), "invariant");
  superblock.log.resize(kMaxExtents, superblock.log[0]);
  EXPECT_DEATH(encode(superblock, 0, chunk), "invariant") << "one extent too many";
  superblock = sample();
  superblock.replay_from = superblock.durable + 2;
  EXPECT_DEATH(encode(superblock, 0, chunk), "invariant");
}

TEST(Superblock, EveryBitCounts) {
  const Chunk chunk = encoded(sample());
  for (size_t bit = 0; bit < 8 * kChunkBytes; ++bit) {
    Chunk flipped = chunk;
    flipped[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    ASSERT_EQ(fault(flipped), SuperblockFault::kChunk) << bit;
  }
}

TEST(Superblock, NoChunkOfOurs) {
  EXPECT_EQ(fault(Chunk{}), SuperblockFault::kChunk);

  Chunk flags = encoded(sample());
  ChunkHead head = head_of(flags.data());
  head.flags |= kFlagLog;
  seal_root(flags, head);
  EXPECT_EQ(fault(flags), SuperblockFault::kChunk);

  Chunk data_crc = encoded(sample());
  seal(data_crc.data(), head_of(data_crc.data()), 1);
  store_be32(data_crc.data() + 4092, crc_of(std::span(data_crc).first<4092>()));
  EXPECT_EQ(fault(data_crc), SuperblockFault::kChunk);

  Chunk behind = encoded(sample());
  behind[4047] = 1;
  seal_root(behind);
  EXPECT_EQ(fault(behind), SuperblockFault::kChunk) << "bytes behind the length";
}

TEST(Superblock, Magic) {
  for (size_t at = 0; at < kVersionAt; ++at) {
    EXPECT_EQ(fault(with<uint8_t>(at, 'x')), SuperblockFault::kMagic) << at;
  }
}

// Of whatever later versions change, all that must hold is the CRCs, the magic and where the
// version stands.
TEST(Superblock, Version) {
  for (const uint32_t version : {0u, 2u, 5u, 0x01000000u}) {
    Chunk chunk = with(kVersionAt, version);
    EXPECT_EQ(fault(chunk), SuperblockFault::kVersion);
    std::memset(chunk.data() + kStoreAt, 0xff, 1000);
    ChunkHead head = head_of(chunk.data());
    head.flags = 0x8000;
    head.length = 60000;
    seal_root(chunk, head);
    EXPECT_EQ(fault(chunk), SuperblockFault::kVersion);
    chunk[2000] ^= 1;
    EXPECT_EQ(fault(chunk), SuperblockFault::kChunk) << "damaged: nothing in it can be believed";
  }
}

TEST(Superblock, ShapeOfTheStore) {
  for (const uint32_t bad : {0u, 1u, 8u, 17u, 2047u, 4096u, ~0u}) {
    EXPECT_EQ(fault(with(kChunksPerBlockAt, bad)), SuperblockFault::kShape) << bad;
  }
  for (const uint32_t bad : {0u, kMaxMedia + 1}) {
    EXPECT_EQ(fault(with(kMediaAt, bad)), SuperblockFault::kShape) << bad;
  }
  EXPECT_TRUE(decode_superblock(with(kMediaAt, kMaxMedia)));
  EXPECT_TRUE(decode_superblock(with<uint64_t>(kReplayFromAt, 104)));
  EXPECT_EQ(fault(with<uint64_t>(kReplayFromAt, 105)), SuperblockFault::kShape);
  EXPECT_EQ(fault(with<uint64_t>(kReplayFromAt, 0)), SuperblockFault::kShape);
  EXPECT_EQ(fault(with<uint64_t>(kDurableAt, 38)), SuperblockFault::kShape);
  EXPECT_TRUE(decode_superblock(with<uint64_t>(kEndAt, 104))->closed());
  EXPECT_EQ(fault(with<uint64_t>(kEndAt, 103)), SuperblockFault::kShape) << "durable behind it";
}

// The data and the chunk around it say the same.
TEST(Superblock, AgreesWithItsChunk) {
  EXPECT_EQ(fault(with<uint32_t>(kStoreAt, 1)), SuperblockFault::kShape);
  EXPECT_EQ(fault(with<uint64_t>(kMarkAt, mark_of(6))), SuperblockFault::kShape);
  EXPECT_EQ(fault(with<uint16_t>(kLogCountAt, 1)), SuperblockFault::kShape) << "length";
  const auto with_head = [](auto change) {
    Chunk chunk = encoded(sample());
    ChunkHead head = head_of(chunk.data());
    change(head);
    seal_root(chunk, head);
    return chunk;
  };
  EXPECT_TRUE(decode_superblock(with_head([](ChunkHead& head) { head.id = 2048; })));
  EXPECT_EQ(fault(with_head([](ChunkHead& head) { head.id = 1; })), SuperblockFault::kShape);
  EXPECT_EQ(fault(with_head([](ChunkHead& head) { head.birth.owner = 1; })),
            SuperblockFault::kShape);
  EXPECT_EQ(fault(with_head([](ChunkHead& head) { head.birth.index = 1; })),
            SuperblockFault::kShape);
  EXPECT_EQ(fault(with_head([](ChunkHead& head) { head.birth.txn += 1; })),
            SuperblockFault::kShape);
  EXPECT_EQ(fault(with_head([](ChunkHead& head) { head.store += 1; })), SuperblockFault::kShape);
  EXPECT_EQ(fault(with_head([](ChunkHead& head) { head.length += 1; })), SuperblockFault::kShape);
}

TEST(Superblock, Extents) {
  // The first extent of the log, changed.
  const auto with_extent = [](auto change) {
    Superblock superblock = sample();
    Extent& extent = superblock.log[0];
    change(extent);
    Chunk chunk = encoded(sample());
    uint8_t* p = chunk.data() + kExtentsAt + kExtentBytes;
    store_be32(p, extent.block_a);
    store_be32(p + 4, extent.block_b);
    store_be16(p + 8, extent.first);
    store_be16(p + 10, extent.count);
    store_be64(p + 12, extent.sequence);
    store_be64(p + 20, extent.txn);
    seal_root(chunk);
    return chunk;
  };
  EXPECT_TRUE(decode_superblock(with_extent([](Extent&) {})));
  EXPECT_TRUE(decode_superblock(with_extent([](Extent& e) { e.sequence = ~uint64_t{0} - 64; })));
  EXPECT_TRUE(decode_superblock(with_extent([](Extent& e) { e.count = 2047; })));
  EXPECT_EQ(fault(with_extent([](Extent& e) { e.block_b = e.block_a; })), SuperblockFault::kShape);
  EXPECT_EQ(fault(with_extent([](Extent& e) { e.first = 0; })), SuperblockFault::kShape)
      << "where superblocks are";
  EXPECT_EQ(fault(with_extent([](Extent& e) { e.count = 0; })), SuperblockFault::kShape);
  EXPECT_EQ(fault(with_extent([](Extent& e) { e.count = 2048; })), SuperblockFault::kShape);
  EXPECT_EQ(fault(with_extent([](Extent& e) { e.first = 65535; })), SuperblockFault::kShape);
  EXPECT_EQ(fault(with_extent([](Extent& e) { e.sequence = ~uint64_t{0} - 63; })),
            SuperblockFault::kShape);
  EXPECT_EQ(fault(with_extent([](Extent& e) { e.txn = mark_of(6); })), SuperblockFault::kShape);
  EXPECT_EQ(fault(with<uint16_t>(kCheckpointCountAt, 65535)), SuperblockFault::kShape);
}

TEST(Superblock, MayBeTorn) {
  Superblock next = sample();
  ++next.generation;
  next.previous = next.mark;
  next.mark = mark_of(6);
  next.version = kCacheVersion;
  next.log.push_back(
      {.block_a = 0, .block_b = 1, .first = 65, .count = 32, .sequence = 105, .txn = next.mark});
  const Chunk before = encoded(sample());
  const Chunk after = encoded(next);
  SeededRandom random(3);
  for (int i = 0; i < 100; ++i) {
    Chunk torn = before;
    for (size_t at = 0; at < torn.size(); at += 8) {
      if (random.below(2) == 0) std::memcpy(torn.data() + at, after.data() + at, 8);
    }
    EXPECT_TRUE(may_be_torn(torn, 0, sample()));
    EXPECT_TRUE(may_be_torn(torn, 0, next));
    EXPECT_FALSE(may_be_torn(torn, 2048, sample())) << "of another place";
  }
  EXPECT_FALSE(may_be_torn(Chunk{}, 0, sample()));
  // Where nothing changes from one superblock to the next, it is damage.
  for (const size_t at : {0, 17, 18, 25, 54, 61, 4040, 4048, 4056, 4064, 4080, 4090}) {
    Chunk spoilt = before;
    spoilt[at] ^= 1;
    EXPECT_FALSE(may_be_torn(spoilt, 0, sample())) << at;
  }
  // A closed store gets one extent more when it is opened, no others.
  Superblock closed = sample();
  closed.end = closed.durable + 1;
  Chunk behind = encoded(closed);
  behind[kExtentsAt + 4 * kExtentBytes - 1] ^= 1;
  EXPECT_TRUE(may_be_torn(behind, 0, closed));
  behind[kExtentsAt + 4 * kExtentBytes] ^= 1;
  EXPECT_FALSE(may_be_torn(behind, 0, closed));
}

TEST(Superblock, NamesOfFaults) {
  EXPECT_STREQ(name_of(SuperblockFault::kChunk), "chunk");
  EXPECT_STREQ(name_of(SuperblockFault::kMagic), "magic");
  EXPECT_STREQ(name_of(SuperblockFault::kVersion), "version");
  EXPECT_STREQ(name_of(SuperblockFault::kShape), "shape");
}

}  // namespace
}  // namespace verbena::store
