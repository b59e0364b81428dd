// SPDX-License-Identifier: Apache-2.0
// Data of chunks, each with a CRC: by the device's keys and without them, with the same outcome.
#include "base/block_sums.h"
#include "base/endian.h"
#include "fabric/fabric_fixture.h"

namespace verbena::fabric {
namespace {

constexpr uint32_t kData = 4048;
constexpr uint32_t kChunk = 4096;
constexpr uint32_t kCrcAt = 4084;

struct Way {
  const char* name;
  uint32_t part_keys;
  Place place = kPlaces[0];
};
void PrintTo(const Way& way, std::ostream* out) { *out << way.name; }

class ChunkDataTest : public FabricTest, public ::testing::WithParamInterface<Way> {
 protected:
  // Operations also wait in the backlog.
  ChunkDataTest()
      : FabricTest(GetParam().place, {.work_requests = 10, .part_keys = GetParam().part_keys}) {}

  // A client's memory, and chunks of the server's.
  void prepare(uint32_t chunks) {
    ASSERT_NO_FATAL_FAILURE(connect());
    chunks_.assign(size_t{chunks} * kChunk, 0xee);
    memory_ = numbered(size_t{chunks} * kChunk * 2, 3);
    for (size_t i = 0; i < memory_.size(); i += 1009) memory_[i] ^= static_cast<uint8_t>(i >> 8);
    ASSERT_TRUE(server_.fabric->add_memory(chunks_.data(), chunks_.size(), false));
    const auto key = client_.fabric->add_memory(memory_.data(), memory_.size(), true);
    ASSERT_TRUE(key);
    key_ = *key;
  }
  [[nodiscard]] Remote remote(size_t at, uint32_t length) const {
    return {key_.address + at, key_.remote, length};
  }
  [[nodiscard]] Local data_of(uint32_t first, uint32_t count, uint32_t crc_at = kCrcAt) {
    return {chunks_.data() + size_t{first} * kChunk, kData, kChunk, count, crc_at};
  }
  [[nodiscard]] uint32_t crc_in(uint32_t chunk) const {
    return load_be32(chunks_.data() + size_t{chunk} * kChunk + kCrcAt);
  }
  [[nodiscard]] uint32_t crc_of(uint32_t chunk) const {
    return ~crc32_msb_update(0xffffffff, {chunks_.data() + size_t{chunk} * kChunk, kData});
  }
  [[nodiscard]] bool read(std::vector<Remote> from, std::vector<Local> to) {
    const OperationId id = next_++;
    server_.fabric->read(theirs_, from, to, id);
    until([&] { return server_.done.contains(id); });
    return server_.done[id];
  }
  [[nodiscard]] bool write(std::vector<Local> from, std::vector<Remote> to) {
    const OperationId id = next_++;
    server_.fabric->write(theirs_, from, to, id);
    until([&] { return server_.done.contains(id); });
    return server_.done[id];
  }

  Bytes chunks_;
  Bytes memory_;
  Key key_;
  OperationId next_ = 1;
};
std::vector<Way> ways() {
  std::vector<Way> all{{"Keys", 1024}, {"FewKeys", 2}, {"Lists", 0}};
  if (device_is_inside()) return all;
  all.push_back({"Tcp", 0, kPlaces[2]});
  if (is_unsafe()) all.push_back({"Shm", 0, kPlaces[4]});
  return all;
}
INSTANTIATE_TEST_SUITE_P(By, ChunkDataTest, ::testing::ValuesIn(ways()),
                         [](const auto& way) { return way.param.name; });

TEST_P(ChunkDataTest, TheDeviceHasKeys) {
  EXPECT_EQ(server_.fabric->device_makes_crcs(kData), GetParam().part_keys > 0);
  EXPECT_FALSE(server_.fabric->device_makes_crcs(1000));
}

// A write at an odd offset: two edges without CRCs, whole chunks with, in two runs.
TEST_P(ChunkDataTest, CrcsAreMadeAndChecked) {
  constexpr uint32_t kChunks = 300;
  ASSERT_NO_FATAL_FAILURE(prepare(kChunks));
  const std::vector<Local> pieces{{chunks_.data() + 1000, kData - 1000, kChunk, 1},
                                  data_of(1, 97),
                                  data_of(100, 198),
                                  {chunks_.data() + size_t{298} * kChunk, 77, kChunk, 1}};
  const uint32_t length = kData - 1000 + (97 + 198) * kData + 77;
  ASSERT_TRUE(read({remote(5, length)}, pieces));
  // Every byte in its place, and nothing else touched.
  Bytes expected(chunks_.size(), 0xee);
  size_t at = 5;
  for (const Local& piece : pieces) {
    for (uint32_t i = 0; i < piece.count; ++i, at += piece.bytes) {
      uint8_t* const part = expected.data() + (piece.memory - chunks_.data()) + size_t{i} * kChunk;
      std::copy_n(memory_.begin() + static_cast<ptrdiff_t>(at), piece.bytes, part);
      if (piece.crc_at == 0) continue;
      store_be32(part + kCrcAt, ~crc32_msb_update(0xffffffff, {part, kData}));
    }
  }
  EXPECT_EQ(chunks_, expected);
  // And back.
  const Bytes sent = memory_;
  std::ranges::fill(memory_, 0);
  ASSERT_TRUE(write(pieces, {remote(5, length)}));
  EXPECT_TRUE(std::equal(memory_.begin() + 5, memory_.begin() + 5 + length, sent.begin() + 5));
  EXPECT_EQ(memory_[4], 0);
  EXPECT_EQ(memory_[5 + length], 0);
}

// A bit changes in memory: the next write of it fails, and neither the connection nor later ones.
TEST_P(ChunkDataTest, ABitThatChanged) {
  ASSERT_NO_FATAL_FAILURE(prepare(64));
  const std::vector<Remote> theirs{remote(0, 64 * kData)};
  ASSERT_TRUE(read(theirs, {data_of(0, 64)}));
  for (const size_t at : {size_t{17} * kChunk + 1234, size_t{kCrcAt}}) {
    chunks_[at] ^= 4;
    EXPECT_FALSE(write({data_of(0, 64)}, theirs));
    // Without CRCs, nobody looks.
    EXPECT_TRUE(write({data_of(0, 64, 0)}, theirs));
    chunks_[at] ^= 4;
    EXPECT_TRUE(write({data_of(0, 64)}, theirs));
  }
  EXPECT_TRUE(server_.failed.empty());
}

// A client's scattered buffers, cut anywhere, also within a chunk.
TEST_P(ChunkDataTest, ScatteredBuffers) {
  constexpr uint32_t kChunks = 40;
  ASSERT_NO_FATAL_FAILURE(prepare(kChunks));
  const std::vector<Remote> theirs{
      remote(100'000, 3000),
      remote(7, kData),
      remote(20'000, 50'000),
      remote(110'000, 38 * kData - 53'000),
  };
  uint32_t length = 0;
  for (const Remote& one : theirs) length += one.length;
  ASSERT_EQ(length, 39 * kData);
  ASSERT_TRUE(read(theirs, {data_of(0, 39)}));
  for (uint32_t i = 0; i < 39; ++i) EXPECT_EQ(crc_in(i), crc_of(i)) << i;
  ASSERT_TRUE(write({data_of(0, 39)}, theirs));
  chunks_[size_t{38} * kChunk] ^= 1;
  EXPECT_FALSE(write({data_of(0, 39)}, theirs));
}

// Parts of other sizes, few and many: CRCs are computed here.
TEST_P(ChunkDataTest, PartsOfOtherSizes) {
  ASSERT_NO_FATAL_FAILURE(prepare(64));
  for (const uint32_t count : {1u, 64u}) {
    const Local parts{chunks_.data(), 1000, kChunk, count, 2000};
    ASSERT_TRUE(read({remote(1, 1000 * count)}, {parts}));
    for (uint32_t i = 0; i < count; ++i) {
      const uint8_t* const part = chunks_.data() + size_t{i} * kChunk;
      ASSERT_TRUE(std::equal(part, part + 1000, &memory_[1 + size_t{i} * 1000]));
      ASSERT_EQ(load_be32(part + 2000), ~crc32_msb_update(0xffffffff, {part, 1000}));
    }
    ASSERT_TRUE(write({parts}, {remote(1, 1000 * count)}));
    chunks_[size_t{count - 1} * kChunk + 999] ^= 1;
    EXPECT_FALSE(write({parts}, {remote(1, 1000 * count)}));
  }
}

// More at once than there are keys, if they are few.
TEST_P(ChunkDataTest, ManyAtOnce) {
  constexpr uint32_t kCount = 12;
  constexpr uint32_t kEach = 50;
  ASSERT_NO_FATAL_FAILURE(prepare(kEach * kCount));
  for (uint32_t i = 0; i < kCount; ++i) {
    server_.fabric->read(theirs_, std::vector{remote(size_t{i} * kEach * kData, kEach * kData)},
                         std::vector{data_of(kEach * i, kEach)}, i);
  }
  until([&] { return server_.done.size() == kCount; });
  EXPECT_TRUE(std::ranges::all_of(server_.done, [](const auto& one) { return one.second; }));
  for (uint32_t i = 0; i < kEach * kCount; ++i) {
    ASSERT_EQ(crc_in(i), crc_of(i)) << i;
    ASSERT_TRUE(std::equal(&chunks_[size_t{i} * kChunk], &chunks_[size_t{i} * kChunk + kData],
                           &memory_[size_t{i} * kData]));
  }
}

// The connection ends with keys in use: they are not lost, nor is the memory touched afterwards.
TEST_P(ChunkDataTest, EndsWithKeysInUse) {
  constexpr uint32_t kCount = 6;
  constexpr uint32_t kEach = 40;
  ASSERT_NO_FATAL_FAILURE(prepare(kCount * kEach));
  for (int round = 0; round < 3; ++round) {
    for (uint32_t i = 0; i < kCount; ++i) {
      server_.fabric->read(theirs_, std::vector{remote(0, kEach * kData)},
                           std::vector{data_of(i * kEach, kEach)}, next_++);
    }
    server_.fabric->end(theirs_);
    const ConnectionId ending = theirs_;
    until([&] { return std::ranges::count(server_.ended, ending) == 1; });
    EXPECT_EQ(server_.done.size(), next_ - 1);
    std::ranges::fill(chunks_, 0xaa);
    ASSERT_NO_FATAL_FAILURE(connect());
    EXPECT_EQ(std::ranges::count(chunks_, 0xaa), std::ssize(chunks_));
    ASSERT_TRUE(read({remote(0, kEach * kData)}, {data_of(0, kEach)}));
    EXPECT_EQ(crc_in(kEach - 1), crc_of(kEach - 1));
  }
}

}  // namespace
}  // namespace verbena::fabric
