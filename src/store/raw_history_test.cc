// SPDX-License-Identifier: Apache-2.0
#include "store/raw_history.h"

#include <gtest/gtest.h>

#include "store/crc_parts.h"
#include "store/superblock.h"

namespace verbena::store {
namespace {

constexpr uint64_t kEpoch = uint64_t{1} << kEpochShift;

void write(RawHistory& history, uint64_t chunks) {
  for (uint64_t i = 0; i < chunks; ++i) {
    ChunkHead head;
    head.id = 100 + i;
    head.length = kDataBytes;
    head.birth = {1, i, kEpoch + 1};
    history.wrote(head, head.id);
  }
}

void say(RawHistory& history, uint64_t sequence, uint16_t flags, std::vector<Record> records) {
  ChunkHead head;
  head.birth = {0, sequence, kEpoch};
  head.flags = flags;
  history.said(head, records);
}

TEST(RawHistory, AClonePutInPlaceAgainAndAgainIsOne) {
  RawHistory history;
  write(history, 10'000);
  for (uint64_t i = 0; i < 150; ++i) {
    say(history, i + 1, kFlagLog,
        {TruncateRecord{2, 0}, CloneRecord{1, 0, 2, 0, 10'000, 10'000 * kDataBytes},
         CommitRecord{kEpoch + 2 + i, 0, 1}});
  }
  const auto found = history.objects();
  EXPECT_TRUE(found.all);
  EXPECT_EQ(found.objects.at(2).size(), 10'000u);
}

// "few bytes", and their CRC.
constexpr uint32_t kCrcOfFew = 0xd99c448a;

TEST(RawHistory, FewBytesAreInRecords) {
  RawHistory history;
  write(history, 1);  // object 1 had a chunk before
  say(history, 1, kFlagLog,
      {ContentRecord{1, kCrcOfFew, "few bytes"}, CommitRecord{kEpoch + 2, 0, 10}});
  say(history, 2, kFlagLog, {ContentRecord{2, kCrcOfFew, "few bytes"}});
  say(history, 3, kFlagLog, {CommitRecord{kEpoch + 3, 0, 11}});
  say(history, 4, kFlagLog,
      {ContentRecord{3, kCrcOfFew, "few bytes"}, ContentRecord{4, 1, "few bytes"},
       CommitRecord{kEpoch + 4, 0, 12}});
  say(history, 5, kFlagLog, {TruncateRecord{3, 0}, CommitRecord{kEpoch + 5, 0, 13}});
  const auto found = history.objects();
  EXPECT_TRUE(found.objects.at(1).empty());
  EXPECT_EQ(found.contents, (std::map<uint64_t, std::string>{{1, "few bytes"}, {2, "few bytes"}}));
}

TEST(RawHistory, FewBytesOfATable) {
  RawHistory history;
  ObjectRecord object{};
  object.number = 7;
  object.modified_ns = 5;
  object.size = 9;
  object.crc = kCrcOfFew;
  object.content = "few bytes";
  say(history, 1, kFlagLog,
      {ContentRecord{7, crc_of_zeros(1), std::string_view("\0", 1)},
       CommitRecord{kEpoch + 2, 0, 4}});
  say(history, 0, kFlagCheckpoint, {object});
  EXPECT_EQ(history.objects().contents.at(7), "few bytes");
  object.modified_ns = 3;
  object.content = "older one";
  object.crc = crc_of({reinterpret_cast<const uint8_t*>("older one"), 9});
  say(history, 0, kFlagCheckpoint, {object});
  EXPECT_EQ(history.objects().contents.at(7), "few bytes");
}

TEST(RawHistory, SaysWhatItCannotFollow) {
  for (const bool checkpoint : {false, true}) {
    RawHistory history;
    write(history, 2000);
    for (uint64_t i = 0; i < 700; ++i) {
      if (checkpoint) {
        say(history, i, kFlagCheckpoint,
            {MapRecord{
                2 + i, 2000 * kDataBytes, {{0, 100, 2000, Held::kHere, {1, 0, kEpoch + 1}}}}});
      } else {
        say(history, i + 1, kFlagLog,
            {CloneRecord{1, 0, 2 + i, 0, 2000, 2000 * kDataBytes},
             CommitRecord{kEpoch + 2 + i, 0, 1}});
      }
    }
    const auto found = history.objects();
    EXPECT_FALSE(found.all);
    size_t chunks = 0;
    for (const auto& [number, object] : found.objects) chunks += object.size();
    EXPECT_LT(chunks, 1'100'000u);
  }
}

// Each chunk was once looked at from each before it: this would take minutes.
TEST(RawHistory, TransactionsWithoutEndCostLittle) {
  RawHistory history;
  write(history, 1);
  for (uint64_t i = 1; i < 100'000; ++i) say(history, i, kFlagLog, {TruncateRecord{1, 0}});
  EXPECT_EQ(history.objects().objects.at(1).size(), 1u);
  say(history, 100'000, kFlagLog, {CommitRecord{kEpoch + 2, 0, 1}});
  EXPECT_EQ(history.objects().objects.at(1).size(), 0u);
}

TEST(RawHistory, ATransactionEndsOnlyInTheNextChunk) {
  RawHistory history;
  write(history, 1);
  say(history, 1, kFlagLog, {TruncateRecord{1, 0}});
  say(history, 3, kFlagLog, {CommitRecord{kEpoch + 2, 0, 1}});
  EXPECT_EQ(history.objects().objects.at(1).size(), 1u);
}

}  // namespace
}  // namespace verbena::store
