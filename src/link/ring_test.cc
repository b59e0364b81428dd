// SPDX-License-Identifier: Apache-2.0
// A ring between an honest writer and an honest reader. One of whose ends lies:
// ring_hostile_test.cc.
#include "link/ring.h"

#include <atomic>
#include <deque>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "link/clock.h"
#include "link/ring_test_fixture.h"

namespace verbena::link {
namespace {

using testing::kWhole;
using testing::RingPair;

constexpr uint32_t kMost = Ring::kMaxPayloadBytes;

[[nodiscard]] uint8_t byte_at(uint32_t seed, size_t i) {
  return static_cast<uint8_t>(seed * 31 + i * 7 + (i >> 8));
}

[[nodiscard]] RecordHead head_of(uint32_t headers, uint32_t payload, uint16_t packets = 1) {
  return {.payload_bytes = payload,
          .packets = packets,
          .header_bytes = static_cast<uint8_t>(headers),
          .kind = RecordKind::kPacket};
}

// As long as it is in the ring.
[[nodiscard]] uint32_t length_of(const RecordHead& head) {
  const uint32_t bytes = head.payload_at() + head.payload_bytes;
  return (bytes + Ring::kLine - 1) / Ring::kLine * Ring::kLine;
}

enum class Shown : uint8_t { kAtOnce, kLater };

void write(RingWriter& writer, const RecordHead& head, uint32_t seed,
           Shown shown = Shown::kAtOnce) {
  const RingWriter::Room room = writer.begin(head);
  for (size_t i = 0; i < head.header_bytes; ++i) room.headers[i] = byte_at(seed, i);
  for (size_t i = 0; i < head.payload_bytes; ++i) room.payload[i] = byte_at(~seed, i);
  writer.append(head);
  if (shown == Shown::kAtOnce) writer.show();
}

[[nodiscard]] bool holds(const RingReader::Record& record, uint32_t seed) {
  for (size_t i = 0; i < record.headers.size(); ++i) {
    if (record.headers[i] != byte_at(seed, i)) return false;
  }
  for (size_t i = 0; i < record.payload.size(); ++i) {
    if (record.payload[i] != byte_at(~seed, i)) return false;
  }
  return true;
}

void expect_record(RingReader& reader, const RecordHead& head, uint32_t seed) {
  const auto record = reader.next();
  ASSERT_TRUE(record);
  EXPECT_EQ(record->head.word(), head.word());
  ASSERT_EQ(record->headers.size(), head.header_bytes);
  ASSERT_EQ(record->payload.size(), head.payload_bytes);
  EXPECT_TRUE(holds(*record, seed));
  reader.advance(*record);
}

// Small, around lines, around what begins on a line of its own, and the largest.
[[nodiscard]] std::vector<uint32_t> border_lengths() {
  std::vector<uint32_t> lengths;
  for (uint32_t i = 0; i <= 2 * Ring::kLine; ++i) lengths.push_back(i);
  for (const uint32_t border : {448U, 512U, 576U, 4096U, 8192U}) {
    for (uint32_t i = border - 2; i <= border + 2; ++i) lengths.push_back(i);
  }
  for (uint32_t i = kMost - 66; i <= kMost; ++i) lengths.push_back(i);
  return lengths;
}

TEST(RingTest, RecordsOfAllLengthsComeOutAsTheyWentIn) {
  RingPair pair;
  uint32_t seed = 0;
  for (const uint32_t payload : border_lengths()) {
    for (const uint32_t headers : {0U, 1U, 12U, 28U, 55U, Ring::kMaxHeaderBytes}) {
      const RecordHead head = head_of(headers, payload, static_cast<uint16_t>(seed));
      ASSERT_TRUE(pair.writer.has_room(payload));
      write(pair.writer, head, ++seed);
      expect_record(pair.reader, head, seed);
      EXPECT_TRUE(pair.reader.is_empty());
      (void)pair.reader.release();
    }
  }
  EXPECT_GT(pair.writer.written(), 20 * Ring::kLeastBytes);  // around many times
}

TEST(RingTest, LargePayloadsBeginOnALine) {
  RingPair pair;
  const auto misplaced = [&](uint32_t payload) {
    const RecordHead head = head_of(12, payload);
    return reinterpret_cast<uintptr_t>(pair.writer.begin(head).payload) % Ring::kLine;
  };
  EXPECT_EQ(misplaced(511), RecordHead::kBytes + 12);
  EXPECT_EQ(misplaced(512), 0);
}

// Against a model: what lies there, in order, and how much room that leaves.
TEST(RingTest, AnyHistoryIsAsTheModelSays) {
  RingPair pair;
  SeededRandom random(7);
  struct Lying {
    RecordHead head;
    uint32_t seed;
  };
  std::deque<Lying> lying;
  uint32_t used = 0;      // not released
  uint32_t released = 0;  // read since
  for (uint32_t step = 1; step < 20'000; ++step) {
    const uint32_t payload = static_cast<uint32_t>(random.below(uint64_t{1} << random.below(17)));
    const RecordHead head = head_of(static_cast<uint32_t>(random.below(57)), payload);
    const uint32_t most = Ring::kLine + (payload + 63) / 64 * 64;
    const bool room = used + most <= kWhole;
    ASSERT_EQ(pair.writer.has_room(payload), room) << step;
    const uint32_t spare = kWhole - used - most;
    if (room) {
      ASSERT_TRUE(pair.writer.has_room(payload, spare));
      ASSERT_FALSE(pair.writer.has_room(payload, spare + 1));
    }
    if (room && random.below(5) != 0) {
      write(pair.writer, head, step);
      lying.push_back({head, step});
      used += length_of(head);
    }
    while (!lying.empty() && random.below(2) == 0) {
      expect_record(pair.reader, lying.front().head, lying.front().seed);
      released += length_of(lying.front().head);
      lying.pop_front();
    }
    ASSERT_EQ(pair.reader.is_empty(), lying.empty());
    if (random.below(3) == 0) {
      EXPECT_FALSE(pair.reader.release());  // nobody asked
      used -= released;
      released = 0;
    }
    ASSERT_EQ(pair.writer.is_read(), used == 0);
  }
}

TEST(RingTest, AnEmptyRingHasNoRecord) {
  RingPair pair;
  EXPECT_TRUE(pair.reader.is_empty());
  EXPECT_FALSE(pair.reader.next());
  EXPECT_FALSE(pair.reader.is_broken());
  EXPECT_FALSE(pair.reader.release());
  EXPECT_TRUE(pair.writer.is_read());
}

TEST(RingTest, ARecordIsThereOnceItIsPublished) {
  RingPair pair;
  const RecordHead head = head_of(12, 100);
  std::fill_n(pair.writer.begin(head).headers, 112, uint8_t{0xff});
  EXPECT_TRUE(pair.reader.is_empty());
  pair.writer.publish(head);
  EXPECT_FALSE(pair.reader.is_empty());
}

// Several are shown by the first one's word, in memory that has held others before.
TEST(RingTest, RecordsAreThereTogetherOnceTheyAreShown) {
  RingPair pair;
  uint32_t seed = 0;
  for (uint32_t round = 0; round < 4 * Ring::kLeastBytes / Ring::kLine; ++round) {
    const uint32_t count = 1 + round % 5;
    for (uint32_t i = 0; i < count; ++i) {
      write(pair.writer, head_of(20, i * 50), seed + i, Shown::kLater);
      ASSERT_TRUE(pair.reader.is_empty());
      ASSERT_FALSE(pair.reader.next());
    }
    ASSERT_NE(pair.writer.hidden_bytes(), 0);
    ASSERT_FALSE(pair.writer.is_read());
    pair.writer.show();
    ASSERT_EQ(pair.writer.hidden_bytes(), 0);
    pair.writer.show();
    for (uint32_t i = 0; i < count; ++i) {
      ASSERT_NO_FATAL_FAILURE(expect_record(pair.reader, head_of(20, i * 50), seed + i));
    }
    ASSERT_FALSE(pair.reader.next());
    (void)pair.reader.release();
    ASSERT_TRUE(pair.writer.is_read());
    ASSERT_TRUE(pair.writer.has_room(4096));
    seed += count;
  }
}

// What was there before it went around is never taken for a record.
TEST(RingTest, WhatLiesBehindTheLastRecordIsNone) {
  RingPair pair;
  for (uint32_t round = 0; round < 4 * Ring::kLeastBytes / Ring::kLine; ++round) {
    const RecordHead head = head_of(Ring::kMaxHeaderBytes, 0);
    std::fill_n(pair.writer.begin(head).headers, Ring::kMaxHeaderBytes, uint8_t{0xff});
    pair.writer.publish(head);
    const auto record = pair.reader.next();
    ASSERT_TRUE(record);
    pair.reader.advance(*record);
    ASSERT_FALSE(pair.reader.next());
    (void)pair.reader.release();
  }
}

// --- room

TEST(RingTest, AFullRingLeavesOneLine) {
  RingPair pair;
  uint32_t records = 0;
  while (pair.writer.has_room(0)) write(pair.writer, head_of(12, 0), ++records);
  EXPECT_EQ(records, kWhole / Ring::kLine);
  EXPECT_EQ(pair.writer.free_for(1), 0);
  for (uint32_t i = 1; i <= records; ++i) expect_record(pair.reader, head_of(12, 0), i);
  EXPECT_FALSE(pair.writer.has_room(0));  // read, and not released
  EXPECT_FALSE(pair.writer.is_read());
  (void)pair.reader.release();
  EXPECT_TRUE(pair.writer.is_read());
  EXPECT_EQ(pair.writer.free_for(1), kWhole);
}

TEST(RingTest, WhoAsksForRoomIsToldOnce) {
  RingPair pair;
  while (pair.writer.has_room(4096)) write(pair.writer, head_of(12, 4096), 1);
  pair.writer.ask_for_room();
  EXPECT_FALSE(pair.reader.release());  // nothing was read
  expect_record(pair.reader, head_of(12, 4096), 1);
  EXPECT_TRUE(pair.reader.release());
  expect_record(pair.reader, head_of(12, 4096), 1);
  EXPECT_FALSE(pair.reader.release());
  EXPECT_TRUE(pair.writer.has_room(4096));
}

// --- memory

TEST(RingTest, AnIdleRingGivesItsMemoryBack) {
  RingPair pair;
  while (pair.writer.has_room(4096)) write(pair.writer, head_of(12, 4096), 1);
  EXPECT_GT(testing::resident_bytes(pair.fd.get()), 100 * 1024);
  EXPECT_FALSE(pair.writer.give_back());
  while (pair.reader.next()) expect_record(pair.reader, head_of(12, 4096), 1);
  EXPECT_FALSE(pair.writer.give_back());  // the reader may still look at it
  (void)pair.reader.release();
  EXPECT_TRUE(pair.writer.give_back());
  EXPECT_LE(testing::resident_bytes(pair.fd.get()), 4096);  // how far the reader is
}

TEST(RingTest, ARingThatWasGivenBackGoesOn) {
  RingPair pair;
  for (uint32_t round = 1; round < 200; ++round) {
    const RecordHead head = head_of(12, round * 211 % kMost);
    write(pair.writer, head, round);
    expect_record(pair.reader, head, round);
    (void)pair.reader.release();
    ASSERT_TRUE(pair.writer.give_back());
    ASSERT_TRUE(pair.reader.is_empty());
    ASSERT_EQ(pair.writer.free_for(1), kWhole);
  }
}

// --- two threads

// Never half a record, never one twice, and a writer that waits for room is told.
TEST(RingTest, AReaderSeesWholeRecordsInOrder) {
  constexpr uint32_t kRecords = 30'000;
  RingPair pair;
  std::atomic<bool> told{false};
  std::atomic<bool> failed{false};
  const auto length = [](uint32_t i) {
    return head_of(i % 57, i % 1000 == 0 ? kMost : (i * 2654435761U >> 20) >> (i % 8));
  };
  std::jthread writing([&] {
    const Time deadline = monotonic_now() + 60 * kSecond;
    for (uint32_t i = 1; i <= kRecords && !failed; ++i) {
      const RecordHead head = length(i);
      while (!pair.writer.has_room(head.payload_bytes)) {
        told = false;
        pair.writer.ask_for_room();
        if (pair.writer.has_room(head.payload_bytes)) break;
        while (!told && !failed) {
          if (monotonic_now() > deadline) failed = true;
          std::this_thread::yield();
        }
        if (failed) return;
      }
      write(pair.writer, head, i);
    }
  });
  for (uint32_t i = 1; i <= kRecords && !failed;) {
    const auto record = pair.reader.next();
    if (!record) {
      ASSERT_FALSE(pair.reader.is_broken());
      std::this_thread::yield();
      continue;
    }
    if (record->head.word() != length(i).word() || !holds(*record, i)) {
      failed = true;
      FAIL() << "record " << i;
    }
    pair.reader.advance(*record);
    ++i;
    if (i % 5 == 0 && pair.reader.release()) told = true;
    if (pair.reader.is_empty() && pair.reader.release()) told = true;
  }
  EXPECT_FALSE(failed) << "the writer was not told of room";
}

}  // namespace
}  // namespace verbena::link
