// SPDX-License-Identifier: Apache-2.0
// A ring one of whose ends lies: the other neither leaves the mapping nor believes it has more than
// there is.
#include <array>
#include <atomic>
#include <cstdlib>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/random.h"
#include "link/clock.h"
#include "link/ring.h"
#include "link/ring_test_fixture.h"

namespace verbena::link {
namespace {

using testing::kWhole;
using testing::RingPair;

constexpr RecordHead kGood{
    .payload_bytes = 100, .packets = 1, .header_bytes = 12, .kind = RecordKind::kPacket};

// What a reader makes of one word, at the start of its ring.
enum class Verdict : uint8_t { kNothing, kRecord, kBroken };
[[nodiscard]] Verdict verdict_on(uint64_t word) {
  static RingPair pair;
  RingReader reader(Ring::adopt(pair.fd.get()).value());
  pair.file.data_word(0).store(word);
  const auto record = reader.next();
  if (record) {
    EXPECT_FALSE(reader.is_broken());
    const uint8_t* const start = record->headers.data() - RecordHead::kBytes;
    EXPECT_GE(record->payload.data(), record->headers.data() + record->headers.size());
    EXPECT_LE(record->payload.data() + record->payload.size(), start + reader.bytes());
    // Every byte of it can be read.
    uint64_t sum = 0;
    for (const uint8_t byte : record->headers) sum += byte;
    for (const uint8_t byte : record->payload) sum += byte;
    EXPECT_GE(sum, 0);
    return Verdict::kRecord;
  }
  return reader.is_broken() ? Verdict::kBroken : Verdict::kNothing;
}

[[nodiscard]] Verdict verdict_on(RecordHead head) { return verdict_on(head.word()); }

// --- words

TEST(RingHostileTest, HeadersFitIntoTheirLine) {
  for (uint32_t headers = 0; headers <= 255; ++headers) {
    RecordHead head = kGood;
    head.header_bytes = static_cast<uint8_t>(headers);
    for (const uint32_t payload : {0U, 511U, 512U, 4096U}) {
      head.payload_bytes = payload;
      EXPECT_EQ(verdict_on(head),
                headers <= Ring::kMaxHeaderBytes ? Verdict::kRecord : Verdict::kBroken)
          << headers << ", " << payload;
    }
  }
}

TEST(RingHostileTest, NoPayloadIsLongerThanARuns) {
  for (const uint32_t payload :
       {0U, 1U, 511U, 512U, 513U, Ring::kMaxPayloadBytes - 1, Ring::kMaxPayloadBytes,
        Ring::kMaxPayloadBytes + 1, Ring::kLeastBytes - Ring::kLine, Ring::kLeastBytes,
        Ring::kMostBytes, std::numeric_limits<uint32_t>::max() - 63,
        std::numeric_limits<uint32_t>::max()}) {
    RecordHead head = kGood;
    head.payload_bytes = payload;
    EXPECT_EQ(verdict_on(head),
              payload <= Ring::kMaxPayloadBytes ? Verdict::kRecord : Verdict::kBroken)
        << payload;
  }
}

// Who reads it judges these.
TEST(RingHostileTest, KindAndPacketsAreGivenAsTheyAre) {
  for (uint32_t kind = 0; kind <= 255; ++kind) {
    RecordHead head = kGood;
    head.kind = static_cast<RecordKind>(kind);
    head.packets = static_cast<uint16_t>(kind * 257);
    EXPECT_EQ(verdict_on(head), Verdict::kRecord);
  }
}

TEST(RingHostileTest, AnyWordIsARecordOrBreaksTheRing) {
  SeededRandom random(3);
  std::array<uint32_t, 2> seen{};
  for (int i = 0; i < 20'000; ++i) {
    // Few bits more often than all: else no length would ever be right.
    const uint64_t word = random.next() & random.next() & (random.next() >> random.below(64));
    const Verdict verdict = verdict_on(word);
    if (word == 0) continue;
    ASSERT_NE(verdict, Verdict::kNothing);
    ++seen[verdict == Verdict::kBroken ? 1 : 0];
  }
  EXPECT_GT(seen[0], 100);
  EXPECT_GT(seen[1], 100);
}

// Each by itself is right.
TEST(RingHostileTest, NoMoreRecordsThanTheRingHolds) {
  RingPair pair;
  RecordHead head = kGood;
  head.payload_bytes = Ring::kMaxPayloadBytes - 2 * Ring::kLine;
  const uint32_t length = Ring::kMaxPayloadBytes - Ring::kLine;
  pair.file.data_word(0).store(head.word());
  pair.file.data_word(length).store(head.word());
  for (int i = 0; i < 2; ++i) {
    const auto record = pair.reader.next();
    ASSERT_TRUE(record);
    pair.reader.advance(*record);
  }
  // One line is left, and that the writer leaves free.
  pair.file.data_word(2 * length).store(RecordHead{.kind = RecordKind::kFlow}.word());
  ASSERT_TRUE(pair.reader.next());
  pair.file.data_word(2 * length).store(kGood.word());
  EXPECT_FALSE(pair.reader.next());
  EXPECT_TRUE(pair.reader.is_broken());
}

TEST(RingHostileTest, AFullRingThatIsNotReleasedGivesNothingMore) {
  RingPair pair;
  const uint64_t word = RecordHead{.kind = RecordKind::kFlow}.word();
  for (uint32_t at = 0; at < Ring::kLeastBytes; at += Ring::kLine) {
    pair.file.data_word(at).store(word);
  }
  uint32_t records = 0;
  while (const auto record = pair.reader.next()) {
    pair.reader.advance(*record);
    ASSERT_LE(++records, kWhole / Ring::kLine);
  }
  EXPECT_EQ(records, kWhole / Ring::kLine);
  EXPECT_TRUE(pair.reader.is_broken());
}

TEST(RingHostileTest, ABrokenRingStaysBroken) {
  RingPair pair;
  RecordHead head = kGood;
  head.header_bytes = 255;
  pair.file.data_word(0).store(head.word());
  EXPECT_FALSE(pair.reader.next());
  for (const uint64_t word : {uint64_t{0}, kGood.word()}) {
    pair.file.data_word(0).store(word);
    EXPECT_FALSE(pair.reader.next());
    EXPECT_TRUE(pair.reader.is_broken());
  }
}

// The length that was checked is the length that is gone by.
TEST(RingHostileTest, AWordThatChangesAfterwardsChangesNothing) {
  RingPair pair;
  pair.writer.publish(kGood);
  pair.writer.publish(kGood);
  const auto record = pair.reader.next();
  ASSERT_TRUE(record);
  pair.file.data_word(0).store(~uint64_t{0});
  EXPECT_EQ(record->payload.size(), kGood.payload_bytes);
  pair.reader.advance(*record);
  const auto second = pair.reader.next();
  ASSERT_TRUE(second);
  EXPECT_EQ(second->head.word(), kGood.word());
}

// --- how far the reader says it is

TEST(RingHostileTest, NoTailMakesRoomThatIsNotThere) {
  constexpr uint32_t kLength = 128;  // of kGood
  RingPair pair;
  for (uint32_t i = 0; i < kWhole / kLength; ++i) pair.writer.publish(kGood);
  const uint64_t head = pair.writer.written();
  const uint32_t left = kWhole - static_cast<uint32_t>(head);
  ASSERT_FALSE(pair.writer.has_room(kGood.payload_bytes));
  const auto free_with = [&](uint64_t tail) {
    pair.file.tail().store(tail);
    (void)pair.writer.free_for(kWhole + 1);  // looks at it
    return pair.writer.free_for(1);
  };
  EXPECT_EQ(free_with(3 * kLength), left + 3 * kLength);
  // Going back, even to before the start.
  for (const uint64_t back : {uint64_t{2 * kLength}, uint64_t{0}}) {
    EXPECT_EQ(free_with(back), left + 3 * kLength) << back;
  }
  EXPECT_FALSE(pair.writer.is_read());
  // Beyond what was written.
  for (const uint64_t beyond :
       {head + 1, head + Ring::kLeastBytes, ~uint64_t{0}, uint64_t{1} << 63}) {
    EXPECT_EQ(free_with(beyond), kWhole) << beyond;
  }
  // From there on all counts as read; it was the reader that lost it.
  pair.writer.publish(kGood);
  EXPECT_EQ(free_with(0), kWhole - kLength);
}

// Writes only into its ring, whatever the tail: what follows the first mapping is the second, and
// what follows that is not written.
TEST(RingHostileTest, AWriterStaysInItsRingWhateverTheTail) {
  RingPair pair;
  SeededRandom random(11);
  uint64_t before = 0;
  for (int i = 0; i < 50'000; ++i) {
    pair.file.tail().store(random.below(2) == 0 ? random.next()
                                                : pair.writer.written() + random.below(256) - 128);
    const auto payload = static_cast<uint32_t>(random.below(Ring::kMaxPayloadBytes + 1));
    ASSERT_LE(pair.writer.free_for(1), kWhole);
    if (!pair.writer.has_room(payload)) continue;
    RecordHead head = kGood;
    head.payload_bytes = payload;
    const RingWriter::Room room = pair.writer.begin(head);
    room.payload[0] = room.payload[payload == 0 ? 0 : payload - 1] = 1;
    pair.writer.publish(head);
    ASSERT_LE(pair.writer.written() - before, kWhole);
    before = pair.writer.written();
  }
  EXPECT_GT(before, Ring::kLeastBytes);
}

TEST(RingHostileTest, AWriterThatAlwaysAsksIsToldNoMoreThanOnceARelease) {
  RingPair pair;
  for (int i = 0; i < 10; ++i) {
    pair.writer.ask_for_room();
    pair.writer.publish(kGood);
    pair.reader.advance(pair.reader.next().value());
    EXPECT_TRUE(pair.reader.release());
    EXPECT_FALSE(pair.reader.release());
  }
}

// All of the file changes while it is read and written.
TEST(RingHostileTest, BothEndsSurviveAFileThatChangesUnderThem) {
  RingPair pair;
  std::atomic<bool> done{false};
  std::jthread liar([&] {
    SeededRandom random(5);
    while (!done.load(std::memory_order_relaxed)) {
      const uint64_t word = random.below(4) == 0 ? random.next() : kGood.word();
      if (random.below(8) == 0) {
        pair.file.tail().store(random.next() >> random.below(64), std::memory_order_relaxed);
      } else {
        const size_t at = random.below(Ring::kLeastBytes / Ring::kLine) * Ring::kLine;
        pair.file.data_word(at).store(word, std::memory_order_relaxed);
      }
    }
  });
  uint64_t sum = 0;
  uint32_t broken = 0;
  const Time deadline = monotonic_now() + 30 * kSecond;
  for (int i = 0; broken < 50 && monotonic_now() < deadline; ++i) {
    if (pair.writer.has_room(4096)) pair.writer.publish(kGood);
    const auto record = pair.reader.next();
    if (record) {
      ASSERT_LE(record->headers.size(), Ring::kMaxHeaderBytes);
      ASSERT_LE(record->payload.size(), Ring::kMaxPayloadBytes);
      if (!record->payload.empty()) sum += record->payload.back();
      pair.reader.advance(*record);
    }
    if (i % 16 == 0) (void)pair.reader.release();
    if (pair.reader.is_broken()) {
      ++broken;
      pair.reader = RingReader(Ring::adopt(pair.fd.get()).value());
    }
  }
  done = true;
  EXPECT_EQ(broken, 50) << sum;
}

// --- files

[[nodiscard]] UniqueFd memory_of(size_t bytes, int seals, unsigned flags = MFD_ALLOW_SEALING) {
  UniqueFd fd(::memfd_create("verbena.test", MFD_CLOEXEC | flags));
  EXPECT_EQ(::ftruncate(fd.get(), static_cast<off_t>(bytes)), 0);
  EXPECT_TRUE(seals == 0 || ::fcntl(fd.get(), F_ADD_SEALS, seals) == 0);
  return fd;
}

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

[[nodiscard]] size_t page_bytes() {
  const RingPair pair;
  return pair.file.bytes() - Ring::kLeastBytes;
}

TEST(RingHostileTest, OnlyFilesOfARingsSizeAreAdopted) {
  const size_t page = page_bytes();
  for (const size_t bytes :
       {page + Ring::kLeastBytes, page + 2 * Ring::kLeastBytes, page + Ring::kMostBytes}) {
    EXPECT_TRUE(Ring::adopt(memory_of(bytes, kSeals).get())) << bytes;
  }
  const size_t least = page + Ring::kLeastBytes;
  const size_t most = page + Ring::kMostBytes;
  for (const size_t bytes :
       {size_t{0}, size_t{1}, page - 1, page, page + 1, page + Ring::kLeastBytes / 2, least - 1,
        least + 1, least + 4096, page + 3 * size_t{Ring::kLeastBytes}, most - 1, most + 1,
        page + 2 * size_t{Ring::kMostBytes}, page + (size_t{1} << 32),
        page + (size_t{1} << 32) + Ring::kLeastBytes}) {
    EXPECT_FALSE(Ring::adopt(memory_of(bytes, kSeals).get())) << bytes;
  }
}

// A file that can shrink could make every access fault.
TEST(RingHostileTest, AFileWithoutItsSealsIsRefused) {
  const size_t bytes = page_bytes() + Ring::kLeastBytes;
  EXPECT_FALSE(Ring::adopt(memory_of(bytes, 0).get()));
  for (const int missing : {F_SEAL_SHRINK, F_SEAL_GROW, F_SEAL_SEAL}) {
    EXPECT_FALSE(Ring::adopt(memory_of(bytes, kSeals & ~missing).get())) << missing;
  }
  EXPECT_FALSE(Ring::adopt(memory_of(bytes, 0, 0).get()));  // cannot be sealed
}

TEST(RingHostileTest, AFileThatCannotBeWrittenIsRefused) {
  const size_t bytes = page_bytes() + Ring::kLeastBytes;
  EXPECT_FALSE(Ring::adopt(memory_of(bytes, kSeals | F_SEAL_WRITE).get()));
  const UniqueFd fd = memory_of(bytes, kSeals);
  const std::string path = "/proc/self/fd/" + std::to_string(fd.get());
  const UniqueFd read_only(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  ASSERT_TRUE(read_only.valid());
  EXPECT_FALSE(Ring::adopt(read_only.get()));
}

TEST(RingHostileTest, WhatIsNoMemoryIsRefused) {
  EXPECT_FALSE(Ring::adopt(-1));
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  const UniqueFd in(pipe[0]);
  const UniqueFd out(pipe[1]);
  EXPECT_FALSE(Ring::adopt(out.get()));
  const UniqueFd zero(::open("/dev/zero", O_RDWR | O_CLOEXEC));
  EXPECT_FALSE(Ring::adopt(zero.get()));
  std::string name = ::testing::TempDir() + "verbena-ring-XXXXXX";
  const UniqueFd file(::mkstemp(name.data()));
  ASSERT_TRUE(file.valid());
  ASSERT_EQ(::unlink(name.c_str()), 0);
  ASSERT_EQ(::ftruncate(file.get(), static_cast<off_t>(page_bytes() + Ring::kLeastBytes)), 0);
  EXPECT_FALSE(Ring::adopt(file.get()));
}

}  // namespace
}  // namespace verbena::link
