// SPDX-License-Identifier: Apache-2.0
#include "store/chunk.h"

#include <algorithm>
#include <array>
#include <string>

#include <gtest/gtest.h>

#include "base/bitwise_crc.h"
#include "base/endian.h"
#include "base/random.h"
#include "store/crc_parts.h"

namespace verbena::store {
namespace {

using Chunk = std::array<uint8_t, kChunkBytes>;

uint32_t reference(std::span<const uint8_t> bytes) {
  return ~bitwise_crc_msb<uint32_t>(0x04c11db7, 0xffffffff, bytes);
}

ChunkHead random_head(RandomSource& random) {
  return {.id = random.next(),
          .birth = {.owner = random.next(), .index = random.next(), .txn = random.next()},
          .store = static_cast<uint32_t>(random.next()),
          .length = static_cast<uint16_t>(random.below(kDataBytes + 1)),
          .flags = static_cast<uint16_t>(random.next())};
}

// Data of head.length random bytes, none of them zero, and zeros behind.
Chunk filled(RandomSource& random, const ChunkHead& head) {
  Chunk chunk{};
  std::generate_n(chunk.begin(), std::min<size_t>(head.length, kDataBytes),
                  [&] { return static_cast<uint8_t>(1 + random.below(255)); });
  return chunk;
}

// Whatever the bytes are, both CRCs are right afterwards.
void seal_again(Chunk& chunk, const ChunkHead& head) {
  seal(chunk.data(), head, crc_of(std::span(chunk).first<kDataBytes>()));
}

Chunk sealed(RandomSource& random, const ChunkHead& head) {
  Chunk chunk = filled(random, head);
  seal_again(chunk, head);
  return chunk;
}

TEST(Chunk, SealsAsTheFormatSays) {
  Chunk chunk{};
  std::ranges::copy(std::string_view("hello"), chunk.begin());
  const ChunkHead head{.id = 0x0102030405060708,
                       .birth = {.owner = 0x1112131415161718,
                                 .index = 0x2122232425262728,
                                 .txn = 0x3132333435363738},
                       .store = 0x41424344,
                       .length = 5,
                       .flags = 0x5152};
  const uint32_t data_crc = reference(std::span(chunk).first<kDataBytes>());
  seal(chunk.data(), head, data_crc);

  const uint8_t* p = chunk.data();
  EXPECT_EQ(load_be64(p + 4048), head.id);
  EXPECT_EQ(load_be64(p + 4056), head.birth.owner);
  EXPECT_EQ(load_be64(p + 4064), head.birth.index);
  EXPECT_EQ(load_be64(p + 4072), head.birth.txn);
  EXPECT_EQ(load_be32(p + 4080), head.store);
  EXPECT_EQ(load_be32(p + 4084), data_crc);
  EXPECT_EQ(load_be16(p + 4088), 5);
  EXPECT_EQ(load_be16(p + 4090), 0x5152);
  EXPECT_EQ(load_be32(p + 4092), reference(std::span(chunk).first<4092>()));
  EXPECT_EQ(examine(chunk), ChunkVerdict::kGood);
}

TEST(Chunk, ReadsBackWhatWasSealed) {
  SeededRandom random(1);
  for (int round = 0; round < 200; ++round) {
    const ChunkHead head = random_head(random);
    const Chunk chunk = sealed(random, head);
    EXPECT_EQ(head_of(chunk.data()), head);
    EXPECT_EQ(data_crc_of(chunk.data()), reference(std::span(chunk).first<kDataBytes>()));
    EXPECT_EQ(chunk_crc_of(chunk.data()), reference(std::span(chunk).first<4092>()));
    EXPECT_EQ(expected_chunk_crc(chunk.data(), data_crc_of(chunk.data())),
              chunk_crc_of(chunk.data()));
    EXPECT_EQ(examine(chunk), ChunkVerdict::kGood);
  }
}

TEST(Chunk, EveryBitCounts) {
  SeededRandom random(2);
  const Chunk chunk = sealed(random, random_head(random));
  for (size_t bit = 0; bit < 8 * kChunkBytes; ++bit) {
    Chunk flipped = chunk;
    flipped[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    ASSERT_EQ(examine(flipped), ChunkVerdict::kCrc) << "bit " << bit;
  }
}

TEST(Chunk, DataCrcThatIsNotTheDatas) {
  SeededRandom random(3);
  const ChunkHead head = random_head(random);
  Chunk chunk = filled(random, head);
  // As if one had sealed with a wrong one, and then made the outer CRC right.
  seal(chunk.data(), head, 0x12345678);
  store_be32(chunk.data() + 4092, reference(std::span(chunk).first<4092>()));
  EXPECT_EQ(examine(chunk), ChunkVerdict::kDataCrc);
}

TEST(Chunk, LengthBeyondTheData) {
  SeededRandom random(4);
  ChunkHead head = random_head(random);
  for (const uint16_t length : std::to_array<uint16_t>({4049, 4096, 65535})) {
    head.length = length;
    EXPECT_EQ(examine(sealed(random, head)), ChunkVerdict::kLength);
  }
  head.length = kDataBytes;
  EXPECT_EQ(examine(sealed(random, head)), ChunkVerdict::kGood);
  head.length = 0;
  EXPECT_EQ(examine(sealed(random, head)), ChunkVerdict::kGood);
}

TEST(Chunk, BytesBehindTheLength) {
  SeededRandom random(5);
  for (const uint16_t length : std::to_array<uint16_t>({0, 1, 7, 8, 4000, 4046, 4047})) {
    ChunkHead head = random_head(random);
    head.length = length;
    for (const size_t at : {size_t{length}, (length + kDataBytes) / 2, kDataBytes - 1}) {
      Chunk chunk = filled(random, head);
      chunk[at] = 1;
      seal_again(chunk, head);
      EXPECT_EQ(examine(chunk), ChunkVerdict::kLength) << length << " " << at;
    }
  }
}

// A plain chunk: data, id, zeros, and the CRC of all that.
TEST(Chunk, PlainIsKnownAsPlain) {
  SeededRandom random(6);
  ChunkHead head;
  head.length = 1000;
  Chunk chunk = filled(random, head);
  store_be64(chunk.data() + 4048, 77);
  store_be32(chunk.data() + 4092, reference(std::span(chunk).first<4092>()));
  EXPECT_EQ(examine(chunk), ChunkVerdict::kPlain);
  EXPECT_EQ(head_of(chunk.data()).id, 77u);
  // Of the 36 bytes each counts.
  for (size_t at = 4056; at < 4092; ++at) {
    Chunk other = chunk;
    other[at] = 1;
    store_be32(other.data() + 4092, reference(std::span(other).first<4092>()));
    EXPECT_EQ(examine(other), ChunkVerdict::kDataCrc) << at;
  }
}

TEST(Chunk, ZerosAreNone) { EXPECT_EQ(examine(Chunk{}), ChunkVerdict::kCrc); }

TEST(Chunk, NamesOfVerdicts) {
  EXPECT_STREQ(name_of(ChunkVerdict::kGood), "good");
  EXPECT_STREQ(name_of(ChunkVerdict::kPlain), "plain");
  EXPECT_STREQ(name_of(ChunkVerdict::kCrc), "chunk CRC");
  EXPECT_STREQ(name_of(ChunkVerdict::kDataCrc), "data CRC");
  EXPECT_STREQ(name_of(ChunkVerdict::kLength), "length");
}

}  // namespace
}  // namespace verbena::store
