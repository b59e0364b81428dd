// SPDX-License-Identifier: Apache-2.0
#include "store/record.h"

#include <array>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/endian.h"
#include "base/random.h"
#include "store/record_testing.h"

namespace verbena::store {
namespace {

using Bytes = std::vector<uint8_t>;
using Room = std::array<uint8_t, kDataBytes>;

Bytes written(const Record& record) {
  Room room{};
  RecordWriter writer(room);
  EXPECT_TRUE(write_record(writer, record));
  return {room.begin(), room.begin() + static_cast<ptrdiff_t>(writer.used())};
}

verbena::Result<Record, RecordFault> read(const Bytes& bytes) { return RecordReader(bytes).next(); }

RecordFault fault(const Bytes& bytes) {
  const auto record = read(bytes);
  EXPECT_FALSE(record);
  return record ? RecordFault{255} : record.error();
}

// One of each type.
const std::vector<Record>& samples() {
  static const std::vector<Record> all = {
      CreateRecord{.number = 5, .id = {6, 7}, .time_ns = 8, .name = "naïve 名前 🌿"},
      CreateRecord{.number = ~uint64_t{0}, .id = {}, .time_ns = 0, .name = ""},
      MapRecord{.number = 5,
                .size = 12345,
                .runs = {{.index = 1, .chunk = 99, .count = 2, .birth = {5, 1, 77}},
                         {.index = 3, .chunk = 7, .count = 2048, .birth = {4, 3, 76}},
                         {.index = 9, .chunk = 8, .count = 1, .birth = {5, 8, 75}}}},
      TruncateRecord{.number = 5, .size = kMaxSize},
      CloneRecord{.from = 5,
                  .from_index = 10,
                  .to = 5,
                  .to_index = 12,
                  .count = 2,
                  .size = 14 * kDataBytes},
      CloneRecord{.from = 5, .from_index = 10, .to = 6, .to_index = 10, .count = 0, .size = 0},
      DeleteRecord{.number = 5},
      RenameRecord{.number = 5, .name = "other"},
      RenameRecord{.number = 5, .name = ""},
      CommitRecord{.txn = uint64_t{3} << 40 | 2, .watermark = 1, .time_ns = ~uint64_t{0}},
      ContentRecord{.number = 5, .crc = 6, .content = {"a\0b", 3}},
      TableRecord{.next_number = 6, .chunks = {1, 2, 0, 1}},
      ObjectRecord{.number = 5,
                   .id = {6, 7},
                   .created_ns = 8,
                   .modified_ns = 9,
                   .size = 10,
                   .runs = 11,
                   .chunks = 12,
                   .name = "naïve",
                   .crc = 0,
                   .content = {}},
      ObjectRecord{.number = 5,
                   .id = {6, 7},
                   .created_ns = 8,
                   .modified_ns = 9,
                   .size = 3,
                   .runs = 0,
                   .chunks = 0,
                   .name = "",
                   .crc = 12,
                   .content = "abc"},
      NameRecord{.name = "naïve", .id = {}, .number = 5},
      NameRecord{.name = "", .id = {6, 7}, .number = 5},
      IdRecord{.id = {6, 7}, .number = 5},
      MapRecord{.number = 5,
                .size = 20000,
                .runs = {{1, 99, 2, Held::kBoth, {5, 1, 77}},
                         {3, 7, 2048, Held::kBoth, {4, 3, 76}},
                         {5000, 0, 0xffffffff, Held::kBehind, {}}}},
      FlushedRecord{.number = 5, .behind = {.version = 8, .next = 9, .tries = 2, .whole = true}},
      FlushedRecord{.number = 5, .behind = {}},
      FlushedRecord{.number = 5,
                    .behind = {.version = 8},
                    .under = UnderView{.name = "old", .id = {1, 2}, .own = {.version = 3}}},
      TakeRecord{.from = 6, .to = 5},
      ObjectRecord{.number = 5,
                   .id = {6, 7},
                   .size = 40000,
                   .runs = 3,
                   .chunks = 1,
                   .name = "behind",
                   .content = {},
                   .behind = {.version = 8}},
  };
  return all;
}

TEST(Record, RoundTripOfEachType) {
  for (const Record& record : samples()) {
    const Bytes bytes = written(record);
    const auto again = read(bytes);
    ASSERT_TRUE(again) << record.index();
    EXPECT_EQ(*again, record) << record.index();
    EXPECT_EQ(written(*again), bytes);
  }
}

TEST(Record, BytesAsTheDocumentSays) {
  EXPECT_EQ(written(DeleteRecord{.number = 0x0102030405060708}),
            (Bytes{5, 1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_EQ(written(RenameRecord{.number = 1, .name = "ab"}),
            (Bytes{6, 0, 0, 0, 0, 0, 0, 0, 1, 0, 2, 'a', 'b'}));
  EXPECT_EQ(written(TableRecord{.next_number = 2, .chunks = {1, 2, 3, 0x01020304}}),
            (Bytes{10, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 3, 1, 2, 3, 4}));
  EXPECT_EQ(written(MapRecord{.number = 5, .size = 9, .runs = {{1, 2, 3, Held::kHere, {5, 1, 4}}}}),
            (Bytes{2, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1,  //
                   0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 3,  //
                   0, 0, 0, 0, 0, 0, 0, 4}));
  EXPECT_EQ(written(MapRecord{.number = 5, .size = 9, .runs = {{1, 2, 3, Held::kHere, {6, 7, 4}}}}),
            (Bytes{2, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1,  //
                   1, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 3,  //
                   0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 0, 7}));
}

TEST(Record, BytesOfWhatIsBehind) {
  EXPECT_EQ(written(MapRecord{.number = 5, .size = 9, .runs = {{1, 2, 3, Held::kBoth, {5, 1, 4}}}}),
            (Bytes{2, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1,  //
                   2, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 3,  //
                   0, 0, 0, 0, 0, 0, 0, 4}));
  EXPECT_EQ(written(MapRecord{.number = 5, .size = 9, .runs = {{1, 0, 3, Held::kBehind, {}}}}),
            (Bytes{2, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0, 0, 9, 0, 1,  //
                   4, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 3}));
  Bytes flushed{7, 0, 0, 0, 0, 0, 0, 0, 5, 0, 0, 0, 0, 0, 0,
                0, 8, 0, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 2, 1};
  EXPECT_EQ(written(FlushedRecord{.number = 5,
                                  .behind = {.version = 8, .next = 9, .tries = 2, .whole = true}}),
            flushed);
  flushed.back() = 4;
  EXPECT_EQ(fault(flushed), RecordFault::kBehind) << "no such flag";
  flushed.back() = 1;
  store_be64(&flushed[9], 0);
  EXPECT_EQ(fault(flushed), RecordFault::kBehind) << "all of nothing";
  store_be64(&flushed[9], 8);
  store_be32(&flushed[25], 0);
  EXPECT_EQ(fault(flushed), RecordFault::kBehind) << "begun, and not begun";
}

TEST(Record, TypesAreNumbered) {
  const std::array<uint8_t, 23> types = {1,  1,  2,  3,  4,  4, 5, 6, 6, 8,  9, 10,
                                         11, 11, 12, 12, 13, 2, 7, 7, 7, 14, 11};
  ASSERT_EQ(samples().size(), types.size());
  for (size_t i = 0; i < types.size(); ++i) EXPECT_EQ(written(samples()[i])[0], types[i]);
}

TEST(Record, ManyInOneChunk) {
  Room room{};
  RecordWriter writer(room);
  std::vector<Record> put;
  for (size_t i = 0; writer.left() >= 200; ++i) {  // all of any sample
    put.push_back(samples()[i % samples().size()]);
    ASSERT_TRUE(write_record(writer, put.back()));
  }
  EXPECT_GT(put.size(), 50u);
  EXPECT_EQ(read_records(std::span(room).first(writer.used())), put);
}

TEST(Record, ShortAtEachLength) {
  for (const Record& record : samples()) {
    Bytes bytes = written(record);
    for (bytes.pop_back(); !bytes.empty(); bytes.pop_back()) {
      ASSERT_EQ(fault(bytes), RecordFault::kShort) << record.index() << " " << bytes.size();
    }
  }
}

TEST(Record, NoSuchType) {
  for (int type = 0; type < 256; ++type) {
    if (type >= 1 && type <= 14) continue;
    EXPECT_EQ(fault(Bytes(64, static_cast<uint8_t>(type))), RecordFault::kType) << type;
  }
}

TEST(Record, ObjectNumberZero) {
  for (const Record& record : samples()) {
    if (std::holds_alternative<CommitRecord>(record)) continue;
    Bytes bytes = written(record);
    // The first field of each, but where one looks for objects.
    size_t at = 1;
    if (const auto* const name = std::get_if<NameRecord>(&record)) at = 3 + name->name.size();
    if (std::holds_alternative<IdRecord>(record)) at = 17;
    store_be64(&bytes[at], 0);
    EXPECT_EQ(fault(bytes), RecordFault::kNumber) << record.index();
  }
  Bytes clone = written(CloneRecord{.from = 1, .to = 2, .count = 1});
  store_be64(&clone[17], 0);
  EXPECT_EQ(fault(clone), RecordFault::kNumber);
  Bytes map =
      written(MapRecord{.number = 5, .size = 9, .runs = {{1, 2, 3, Held::kHere, {6, 7, 4}}}});
  store_be64(&map[19 + 27], 0);
  EXPECT_EQ(fault(map), RecordFault::kNumber) << "nothing is born of the log";
}

TEST(Record, BadNames) {
  for (const Record& record :
       {Record(CreateRecord{.number = 1, .id = {}, .time_ns = 0, .name = "abc"}),
        Record(RenameRecord{.number = 1, .name = "abc"})}) {
    for (const uint8_t bad : std::to_array<uint8_t>({0x00, 0x0a, 0x1f, 0x7f, 0x80, 0xc0, 0xff})) {
      Bytes bytes = written(record);
      bytes.end()[-2] = bad;
      EXPECT_EQ(fault(bytes), RecordFault::kName) << record.index() << " " << int{bad};
    }
  }
  const std::string longest(kMaxNameBytes, 'x');
  Bytes bytes = written(RenameRecord{.number = 1, .name = longest});
  EXPECT_TRUE(read(bytes));
  bytes.push_back('x');
  store_be16(&bytes[9], kMaxNameBytes + 1);
  EXPECT_EQ(fault(bytes), RecordFault::kName);
}

// A MAP of one run, in which one field is changed.
Bytes map_with(size_t at, uint64_t value, size_t bytes) {
  Bytes map =
      written(MapRecord{.number = 5, .size = 9, .runs = {{1, 2, 3, Held::kHere, {6, 7, 4}}}});
  for (size_t i = 0; i < bytes; ++i) {
    map[at + i] = static_cast<uint8_t>(value >> (8 * (bytes - 1 - i)));
  }
  return map;
}

TEST(Record, BadRuns) {
  constexpr size_t kForm = 19;
  constexpr size_t kIndex = kForm + 1;
  constexpr size_t kChunk = kIndex + 8;
  constexpr size_t kCount = kChunk + 8;
  constexpr size_t kBirthIndex = kCount + 2 + 8 + 8;
  EXPECT_TRUE(read(map_with(kForm, 1, 1)));
  EXPECT_EQ(fault(map_with(17, 0, 2)), RecordFault::kRun) << "no runs";
  EXPECT_EQ(fault(map_with(17, 2, 2)), RecordFault::kShort) << "one more run than is there";
  EXPECT_EQ(fault(map_with(kForm, 5, 1)), RecordFault::kRun) << "form";
  EXPECT_EQ(fault(map_with(kCount, 0, 2)), RecordFault::kRun);
  EXPECT_EQ(fault(map_with(kCount, kMaxRunChunks + 1, 2)), RecordFault::kRun);
  EXPECT_TRUE(read(map_with(kCount, kMaxRunChunks, 2)));
  for (const size_t field : {kIndex, kChunk, kBirthIndex}) {
    EXPECT_TRUE(read(map_with(field, kMaxIndex - 3, 8))) << field;
    EXPECT_EQ(fault(map_with(field, kMaxIndex - 2, 8)), RecordFault::kRun) << field;
    EXPECT_EQ(fault(map_with(field, ~uint64_t{0}, 8)), RecordFault::kRun) << field;
  }
  // What form 0 can say is not said by form 1.
  Bytes map = map_with(kBirthIndex, 1, 8);
  EXPECT_TRUE(read(map));
  store_be64(&map[kBirthIndex - 8], 5);
  EXPECT_EQ(fault(map), RecordFault::kRun);
}

TEST(Record, SizesBeyondBounds) {
  for (const Record& record : {Record(MapRecord{5, kMaxSize, {{1, 2, 3, Held::kHere, {6, 7, 4}}}}),
                               Record(TruncateRecord{5, kMaxSize})}) {
    Bytes bytes = written(record);
    EXPECT_TRUE(read(bytes));
    store_be64(&bytes[9], kMaxSize + 1);
    EXPECT_EQ(fault(bytes), RecordFault::kRange) << record.index();
  }
}

TEST(Record, BadClones) {
  constexpr size_t kFromIndex = 9;
  constexpr size_t kTo = 17;
  constexpr size_t kToIndex = 25;
  constexpr size_t kSize = 41;
  const CloneRecord good{
      .from = 1, .from_index = 10, .to = 2, .to_index = 10, .count = 4, .size = kMaxSize};
  const auto with = [&](size_t at, uint64_t value) {
    Bytes bytes = written(good);
    store_be64(&bytes[at], value);
    return bytes;
  };
  EXPECT_EQ(fault(with(kSize, kMaxSize + 1)), RecordFault::kRange);
  for (const size_t field : {kFromIndex, kToIndex}) {
    EXPECT_TRUE(read(with(field, kMaxIndex - 4)));
    EXPECT_EQ(fault(with(field, kMaxIndex - 3)), RecordFault::kRange);
    EXPECT_EQ(fault(with(field, ~uint64_t{0} - 1)), RecordFault::kRange);
  }
  EXPECT_EQ(fault(with(kTo, 1)), RecordFault::kRange) << "onto itself";
  for (uint64_t index = 0; index < 30; ++index) {
    Bytes bytes = with(kTo, 1);
    store_be64(&bytes[kToIndex], index);
    const bool apart = index <= 6 || index >= 14;
    EXPECT_EQ(read(bytes).has_value(), apart) << index;
  }
}

TEST(Record, WhatDoesNotFitIsNotWritten) {
  for (const Record& record : samples()) {
    const Bytes whole = written(record);
    if (std::holds_alternative<MapRecord>(record)) continue;
    Bytes room(whole.size() - 1, 0xee);
    RecordWriter writer(room);
    EXPECT_FALSE(write_record(writer, record)) << record.index();
    EXPECT_EQ(writer.used(), 0u);
    EXPECT_EQ(room, Bytes(room.size(), 0xee));
    Bytes exact(whole.size());
    RecordWriter exactly(exact);
    EXPECT_TRUE(write_record(exactly, record));
    EXPECT_EQ(exactly.left(), 0u);
  }
}

TEST(Record, AMapTakesAsManyRunsAsFit) {
  SeededRandom random(1);
  for (size_t size = 0; size < 400; ++size) {
    std::vector<store::Run> runs;
    for (uint64_t i = 0; i < 10; ++i) {
      runs.push_back({.index = i, .chunk = i, .count = 1, .birth = {5 + random.below(2), i, 9}});
    }
    Bytes room(size);
    RecordWriter writer(room);
    const size_t put = writer.map(5, 0, runs);
    size_t bytes = 19;
    size_t fit = 0;
    for (; fit < runs.size(); ++fit) {
      const size_t more = runs[fit].birth.owner == 5 ? 27 : 43;
      if (bytes + more > size) break;
      bytes += more;
    }
    ASSERT_EQ(put, fit) << size;
    ASSERT_EQ(writer.used(), fit == 0 ? 0 : bytes);
    if (fit > 0) {
      runs.resize(fit);
      EXPECT_EQ(read_records(std::span(room).first(writer.used())),
                (std::vector<Record>{MapRecord{5, 0, runs}}));
    }
  }
  Room room{};
  RecordWriter writer(room);
  EXPECT_EQ(writer.map(5, 0, {}), 0u);
  EXPECT_EQ(writer.used(), 0u);
}

TEST(Record, BoundsOfSizesHold) {
  const std::string longest(kMaxNameBytes, 'x');
  EXPECT_LE(written(CreateRecord{.number = 1, .id = {}, .time_ns = 0, .name = longest}).size(),
            kMaxCreateBytes);
  EXPECT_LE(written(RenameRecord{.number = 1, .name = longest}).size(), kMaxCreateBytes);
  EXPECT_LE(written(MapRecord{.number = 5, .size = 9, .runs = {{1, 2, 3, Held::kHere, {6, 7, 4}}}})
                .size(),
            kMaxMapOneBytes);
  for (const Record& record : samples()) {
    if (std::holds_alternative<MapRecord>(record)) continue;
    const bool object = std::holds_alternative<ObjectRecord>(record);
    const bool flushed = std::holds_alternative<FlushedRecord>(record);
    const size_t other = flushed ? kMaxFlushedBytes : kMaxSmallBytes;
    EXPECT_LE(written(record).size(), object ? kMaxObjectBytes : other);
  }
}

// A record that could not be read again would make the store one that cannot be opened.
TEST(RecordDeathTest, WhatCannotBeReadIsNotWritten) {
  Room room{};
  RecordWriter writer(room);
  EXPECT_DEATH(std::ignore = writer.remove({.number = 0}), "invariant");
  EXPECT_DEATH(std::ignore = writer.rename({.number = 1, .name = "\n"}), "invariant");
  EXPECT_DEATH(std::ignore = writer.truncate({.number = 1, .size = kMaxSize + 1}), "invariant");
  const store::Run run{.index = 0, .chunk = 0, .count = 0, .birth = {1, 0, 0}};
  EXPECT_DEATH(std::ignore = writer.map(1, 0, {&run, 1}), "invariant");
}

TEST(Record, NamesOfFaults) {
  EXPECT_STREQ(name_of(RecordFault::kShort), "short");
  EXPECT_STREQ(name_of(RecordFault::kType), "type");
  EXPECT_STREQ(name_of(RecordFault::kName), "name");
  EXPECT_STREQ(name_of(RecordFault::kRun), "run");
  EXPECT_STREQ(name_of(RecordFault::kNumber), "number");
  EXPECT_STREQ(name_of(RecordFault::kRange), "range");
}

}  // namespace
}  // namespace verbena::store
