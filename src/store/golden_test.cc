// SPDX-License-Identifier: Apache-2.0
// The format does not drift: chunks in tests/golden/store, one folder a version, decode to what is
// said here and encode to the same bytes; and the hex in docs/store-format.md is theirs. Run from
// the repository's root.
#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/endian.h"
#include "store/chunk.h"
#include "store/crc_parts.h"
#include "store/record_testing.h"
#include "store/superblock.h"

namespace verbena::store {
namespace {

using Chunk = std::array<uint8_t, kChunkBytes>;

constexpr const char* kFolder = "tests/golden/store/v3/";
constexpr const char* kDocument = "docs/store-format.md";

constexpr uint32_t kTag = 0x5eedf00d;
constexpr uint64_t kNow = 1'700'000'000'000'000'000;  // 14 November 2023, 22:13:20
constexpr uint64_t kMark = uint64_t{1} << kEpochShift | 0x2bad5eed;
constexpr uint64_t kNextMark = uint64_t{2} << kEpochShift | 0x7ea5e771;
constexpr uint64_t kFirstTxn = kMark + 1;
constexpr uint32_t kFewCrc = 0xd99c448a;  // of "few bytes"

Chunk golden(const std::string& name) {
  Chunk chunk{};
  std::ifstream file(kFolder + name + ".chunk", std::ios::binary);
  file.read(reinterpret_cast<char*>(chunk.data()), chunk.size());
  EXPECT_EQ(file.gcount(), static_cast<std::streamsize>(chunk.size())) << name;
  EXPECT_EQ(file.peek(), std::ifstream::traits_type::eof()) << name;
  return chunk;
}

Chunk with_data(std::span<const uint8_t> data, ChunkHead head) {
  Chunk chunk{};
  std::ranges::copy(data, chunk.begin());
  head.length = static_cast<uint16_t>(data.size());
  seal(chunk.data(), head, crc_of(std::span(chunk).first<kDataBytes>()));
  return chunk;
}

std::vector<uint8_t> bytes_of(const std::vector<Record>& records) {
  std::array<uint8_t, kDataBytes> room{};
  RecordWriter writer(room);
  for (const Record& record : records) EXPECT_TRUE(write_record(writer, record));
  return {room.begin(), room.begin() + static_cast<ptrdiff_t>(writer.used())};
}

// The chunk and the values are each other's.
void expect_data(const std::string& name, std::string_view data, const ChunkHead& head) {
  SCOPED_TRACE(name);
  const Chunk chunk = golden(name);
  EXPECT_EQ(examine(chunk), ChunkVerdict::kGood);
  ChunkHead expected = head;
  expected.length = static_cast<uint16_t>(data.size());
  EXPECT_EQ(head_of(chunk.data()), expected);
  EXPECT_EQ(std::memcmp(chunk.data(), data.data(), data.size()), 0);
  EXPECT_EQ(with_data({reinterpret_cast<const uint8_t*>(data.data()), data.size()}, head), chunk);
}

void expect_records(const std::string& name, const std::vector<Record>& records,
                    const ChunkHead& head) {
  SCOPED_TRACE(name);
  const Chunk chunk = golden(name);
  EXPECT_EQ(examine(chunk), ChunkVerdict::kGood);
  const auto data = std::span(chunk).first(head_of(chunk.data()).length);
  EXPECT_EQ(read_records(data), records);
  EXPECT_EQ(with_data(bytes_of(records), head), chunk);
}

void expect_superblock(const std::string& name, const Superblock& superblock, uint64_t id) {
  SCOPED_TRACE(name);
  const Chunk chunk = golden(name);
  const auto decoded = decode_superblock(chunk);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(*decoded, superblock);
  EXPECT_EQ(head_of(chunk.data()).id, id);
  Chunk again;
  encode(superblock, id, again);
  EXPECT_EQ(again, chunk);
}

// One small store: an object of 13 bytes, and how it came to be.
TEST(GoldenStore, DataChunk) {
  expect_data("data", "Hello, chunk\n",
              {.id = 4096, .birth = {1, 0, kFirstTxn}, .store = kTag, .length = 0, .flags = 0});
}

TEST(GoldenStore, LogChunk) {
  for (const auto& [name, id] : {std::pair("log-a", 1), std::pair("log-b", 2049)}) {
    expect_records(
        name,
        {CreateRecord{.number = 1, .id = {0, 7}, .time_ns = kNow, .name = "greeting"},
         MapRecord{.number = 1,
                   .size = 13,
                   .runs = {{.index = 0, .chunk = 4096, .count = 1, .birth = {1, 0, kFirstTxn}}}},
         CommitRecord{.txn = kFirstTxn, .watermark = 0, .time_ns = kNow}},
        {.id = static_cast<uint64_t>(id),
         .birth = {0, 1, kMark},
         .store = kTag,
         .length = 0,
         .flags = kFlagLog});
  }
}

TEST(GoldenStore, Superblock) {
  const Superblock superblock{
      .version = 3,
      .store = kTag,
      .chunks_per_block = 2048,
      .media = 1,
      .generation = 2,
      .mark = kMark,
      .previous = 0,
      .created_ns = kNow,
      .replay_from = 1,
      .durable = 1,
      .end = 2,
      .checkpoint = {},
      .log = {{.block_a = 0, .block_b = 1, .first = 1, .count = 32, .sequence = 1, .txn = kMark}}};
  expect_superblock("superblock-a", superblock, 0);
  expect_superblock("superblock-b", superblock, 2048);
}

// Beside it, one of everything.
TEST(GoldenStore, EveryRecord) {
  expect_records(
      "log-every-record",
      {CreateRecord{.number = 2, .id = {1, 2}, .time_ns = kNow, .name = ""},
       CreateRecord{.number = 3, .id = {~uint64_t{0}, 0}, .time_ns = kNow, .name = "naïve 名前 🌿"},
       MapRecord{.number = 3,
                 .size = 12345,
                 .runs = {{.index = 1, .chunk = 99, .count = 2, .birth = {3, 1, kFirstTxn + 1}},
                          {.index = 3, .chunk = 4097, .count = 2048, .birth = {2, 7, kFirstTxn}}}},
       TruncateRecord{.number = 3, .size = 4049},
       CloneRecord{.from = 3, .from_index = 0, .to = 2, .to_index = 5, .count = 2, .size = 28336},
       RenameRecord{.number = 2, .name = "copy"}, DeleteRecord{.number = 3},
       ContentRecord{.number = 2, .crc = kFewCrc, .content = "few bytes"},
       CommitRecord{.txn = kFirstTxn + 2, .watermark = 41, .time_ns = kNow + 1}},
      {.id = 50, .birth = {0, 42, kNextMark}, .store = kTag, .length = 0, .flags = kFlagLog});
}

// A table of its own: a chunk for each section.
TEST(GoldenStore, Table) {
  const std::vector<std::pair<std::string, std::vector<Record>>> chunks = {
      {"table-head", {TableRecord{.next_number = 9, .chunks = {1, 1, 1, 1}}}},
      {"table-objects",
       {ObjectRecord{.number = 1,
                     .id = {0, 7},
                     .created_ns = kNow,
                     .modified_ns = kNow,
                     .size = 13,
                     .runs = 1,
                     .chunks = 1,
                     .name = "greeting",
                     .crc = 0,
                     .content = ""},
        ObjectRecord{.number = 2,
                     .id = {1, 2},
                     .created_ns = kNow,
                     .modified_ns = kNow + 1,
                     .size = 9,
                     .runs = 0,
                     .chunks = 0,
                     .name = "",
                     .crc = kFewCrc,
                     .content = "few bytes"},
        DeleteRecord{.number = 3},
        ObjectRecord{.number = 8,
                     .id = {~uint64_t{0}, 0},
                     .created_ns = kNow,
                     .modified_ns = 0,
                     .size = 5 * kDataBytes,
                     .runs = 2,
                     .chunks = 3,
                     .name = "naïve 名前 🌿",
                     .crc = 0,
                     .content = ""}}},
      {"table-runs",
       {MapRecord{.number = 1,
                  .size = 13,
                  .runs = {{.index = 0, .chunk = 4096, .count = 1, .birth = {1, 0, kFirstTxn}}}},
        MapRecord{.number = 8,
                  .size = 5 * kDataBytes,
                  .runs = {{.index = 0, .chunk = 4097, .count = 1, .birth = {8, 0, kFirstTxn + 1}},
                           {.index = 3, .chunk = 99, .count = 2, .birth = {1, 0, kFirstTxn}}}}}},
      {"table-names",
       {NameRecord{.name = "", .id = {1, 2}, .number = 2},
        NameRecord{.name = "greeting", .id = {}, .number = 1},
        NameRecord{.name = "naïve 名前 🌿", .id = {}, .number = 8}}},
      {"table-ids",
       {IdRecord{.id = {0, 7}, .number = 1}, IdRecord{.id = {1, 2}, .number = 2},
        IdRecord{.id = {~uint64_t{0}, 0}, .number = 8}}}};
  for (uint64_t i = 0; i < chunks.size(); ++i) {
    expect_records(chunks[i].first, chunks[i].second,
                   {.id = 100 + i,
                    .birth = {0, table_sequence(1, i), kNextMark},
                    .store = kTag,
                    .length = 0,
                    .flags = kFlagCheckpoint});
  }
}

TEST(GoldenStore, FullSuperblock) {
  Superblock superblock{.version = 3,
                        .store = kTag,
                        .chunks_per_block = 16,
                        .media = 4,
                        .generation = 1000,
                        .mark = ~uint64_t{0},
                        .previous = kNextMark,
                        .created_ns = kNow,
                        .replay_from = 5000,
                        .durable = 5002,
                        .end = 0,
                        .checkpoint = {},
                        .log = {}};
  for (uint32_t i = 0; i < kMaxExtents; ++i) {
    auto& to = i < 100 ? superblock.checkpoint : superblock.log;
    to.push_back(
        {.block_a = 2 * i + 2,
         .block_b = 2 * i + 3,
         .first = 0,
         .count = 16,
         .sequence = i < 100 ? 16 * i : 5000 + 16 * (i - 100),
         .txn = uint64_t{kMaxEpoch - static_cast<uint32_t>(kMaxExtents) + i} << kEpochShift |
                (i + 1)});
  }
  expect_superblock("superblock-full", superblock, 16);
}

TEST(GoldenStore, PlainChunkOfDocument000) {
  const Chunk chunk = golden("plain");
  EXPECT_EQ(examine(chunk), ChunkVerdict::kPlain);
  EXPECT_EQ(head_of(chunk.data()).id, 3u);
  EXPECT_EQ(std::memcmp(chunk.data(), "plain", 6), 0);
}

TEST(GoldenStore, UnknownVersion) {
  const auto decoded = decode_superblock(golden("superblock-version-2"));
  ASSERT_FALSE(decoded);
  EXPECT_EQ(decoded.error(), SuperblockFault::kVersion);
}

TEST(GoldenStore, NoChunkIsForgotten) {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    names.insert(entry.path().stem());
  }
  EXPECT_EQ(names, (std::set<std::string>{
                       "data", "log-a", "log-b", "superblock-a", "superblock-b", "log-every-record",
                       "superblock-full", "plain", "superblock-version-2", "whole-store",
                       "table-head", "table-objects", "table-runs", "table-names", "table-ids"}));
}

// A line of an example is an offset, two spaces, bytes with a space between them, and behind two
// more spaces whatever helps to read them. What no line has is zero.
void take_line(const std::string& line, Chunk& chunk, size_t& end) {
  SCOPED_TRACE(line);
  ASSERT_GE(line.size(), 8u);
  const size_t offset = std::stoul(line.substr(0, 4), nullptr, 16);
  ASSERT_GE(offset, end);
  end = offset;
  for (size_t at = 6; at + 2 <= line.size() && std::isxdigit(line[at]) != 0; at += 3) {
    ASSERT_LT(end, chunk.size());
    chunk[end++] = static_cast<uint8_t>(std::stoul(line.substr(at, 2), nullptr, 16));
    if (at + 2 < line.size() && line[at + 2] != ' ') FAIL() << "a byte has two digits";
  }
  ASSERT_GT(end, offset);
}

TEST(GoldenStore, TheDocumentsExamples) {
  std::ifstream document(kDocument);
  ASSERT_TRUE(document) << "run from the repository's root";
  const std::string fence = "```";
  std::set<std::string> seen;
  for (std::string line; std::getline(document, line);) {
    if (!line.starts_with(fence + "hex ")) continue;
    const std::string name = line.substr(fence.size() + 4);
    SCOPED_TRACE(name);
    Chunk chunk{};
    size_t end = 0;
    while (std::getline(document, line) && line != fence) {
      ASSERT_NO_FATAL_FAILURE(take_line(line, chunk, end));
    }
    EXPECT_EQ(chunk, golden(name));
    seen.insert(name);
  }
  EXPECT_EQ(seen, (std::set<std::string>{"data", "log-a", "superblock-a", "table-objects"}));
}

}  // namespace
}  // namespace verbena::store
