// SPDX-License-Identifier: Apache-2.0
// The store's operations one by one. Long random sequences, crashes and damage: tests/store.
#include "store/store.h"

#include <cstring>
#include <numeric>

#include <gtest/gtest.h>

#include "medium/malloc_backend.h"
#include "store/record.h"
#include "store/store_testing.h"

namespace verbena::store {
namespace {

TEST_F(StoreTest, ReadsWhatWasWrittenAtAnyOffset) {
  ASSERT_TRUE(store_->create_object(kOne, "one"));
  Bytes model;
  SeededRandom random(3);
  for (int i = 0; i < 200; ++i) {
    const size_t offset = random.below(40'000);
    const Bytes bytes = pattern(1 + random.below(12'000), static_cast<uint64_t>(i));
    write(kOne, offset, bytes);
    if (model.size() < offset + bytes.size()) model.resize(offset + bytes.size());
    std::ranges::copy(bytes, model.begin() + static_cast<ptrdiff_t>(offset));
    ASSERT_EQ(read(kOne, 0, 100'000), model) << i;
  }
  EXPECT_EQ(store_->stat(kOne)->size, model.size());
  const auto report = reopen();
  EXPECT_TRUE(report.clean);
  EXPECT_TRUE(report.damage.empty());
  EXPECT_EQ(read(kOne, 0, 100'000), model);
  EXPECT_EQ(*store_->find("one"), kOne);
}

TEST_F(StoreTest, HolesAreZerosAndTruncationCuts) {
  ASSERT_TRUE(store_->create_object(kOne));
  write(kOne, 20'000, pattern(100, 1));
  EXPECT_EQ(read(kOne, 0, 20'000), Bytes(20'000));
  write(kOne, 0, pattern(9000, 2));
  ASSERT_TRUE(store_->truncate(kOne, 5000));
  ASSERT_TRUE(store_->truncate(kOne, 30'000));
  Bytes expected = pattern(9000, 2);
  expected.resize(5000);
  expected.resize(30'000);
  EXPECT_EQ(read(kOne, 0, 40'000), expected);
  reopen();
  EXPECT_EQ(read(kOne, 0, 40'000), expected);
  EXPECT_EQ(store_->space().used, 2u);
}

TEST_F(StoreTest, ClonesShareUntilWritten) {
  ASSERT_TRUE(store_->create_object(kOne));
  const Bytes bytes = pattern(100'000, 1);
  write(kOne, 0, bytes);
  const uint64_t used = store_->space().used;
  CloneRequest whole;
  whole.from = kOne;
  whole.to = kTwo;
  ASSERT_TRUE(store_->clone(whole));
  EXPECT_EQ(store_->space().used, used);
  EXPECT_EQ(store_->clone(whole).error().code, Code::kExists);
  write(kTwo, 50'000, Bytes(10, 7));
  EXPECT_EQ(store_->space().used, used + 1);
  EXPECT_EQ(read(kOne, 0, 100'000), bytes);
  Bytes changed = bytes;
  std::fill_n(changed.begin() + 50'000, 10, 7);
  EXPECT_EQ(read(kTwo, 0, 100'000), changed);
  ASSERT_TRUE(store_->remove(kOne));
  reopen();
  EXPECT_EQ(read(kTwo, 0, 100'000), changed);
  EXPECT_EQ(store_->space().used, used);
}

TEST_F(StoreTest, PreparedWritesAreSeenWhenCommitted) {
  ASSERT_TRUE(store_->create_object(kOne));
  write(kOne, 0, Bytes(30'000, 1));
  const Bytes bytes = pattern(10'000, 3);
  const uint64_t used = store_->space().used;
  for (const bool commit : {false, true}) {
    auto prepared = store_->prepare_write(kOne, 1234, bytes.size());
    ASSERT_TRUE(prepared.has_value());
    size_t at = 0;
    for (const Scatter& piece : prepared->pieces()) {
      for (uint32_t i = 0; i < piece.count; ++i) {
        std::memcpy(piece.memory + size_t{i} * piece.stride, bytes.data() + at, piece.bytes);
        at += piece.bytes;
      }
    }
    ASSERT_EQ(at, bytes.size());
    if (!commit) continue;
    EXPECT_EQ(prepared->commit({false, crc_of(bytes) ^ 1}).error().code, Code::kDamaged);
    EXPECT_EQ(read(kOne, 0, 30'000), Bytes(30'000, 1));
    const auto done = prepared->commit({false, crc_of(bytes)});
    ASSERT_TRUE(done.has_value()) << done.error().what;
  }
  Bytes expected(30'000, 1);
  std::ranges::copy(bytes, expected.begin() + 1234);
  EXPECT_EQ(read(kOne, 0, 30'000), expected);
  ASSERT_TRUE(store_->flush() && store_->flush());
  EXPECT_EQ(store_->space().used, used);
  EXPECT_EQ(store_->space().pending, 0u);
}

TEST_F(StoreTest, PinnedBytesStayAsTheyAre) {
  ASSERT_TRUE(store_->create_object(kOne));
  const Bytes bytes = pattern(20'000, 3);
  write(kOne, 0, bytes);
  {
    const auto pinned = store_->prepare_read(kOne, 100, 15'000);
    ASSERT_TRUE(pinned.has_value());
    for (int i = 0; i < 50; ++i) {
      write(kOne, 0, pattern(20'000, 100 + static_cast<uint64_t>(i)));
      ASSERT_TRUE(store_->flush());
    }
    Bytes seen;
    for (const Scatter& piece : pinned->pieces()) {
      for (uint32_t i = 0; i < piece.count; ++i) {
        const uint8_t* from = piece.memory + size_t{i} * piece.stride;
        seen.insert(seen.end(), from, from + piece.bytes);
      }
    }
    EXPECT_EQ(seen, Bytes(bytes.begin() + 100, bytes.begin() + 15'100));
    EXPECT_EQ(pinned->crc(), crc_of(seen));
  }
  ASSERT_TRUE(store_->flush() && store_->flush());
  EXPECT_EQ(store_->space().used, 5u);
  EXPECT_EQ(store_->space().pending, 0u);
}

TEST_F(StoreTest, ReplacesInOneStep) {
  ASSERT_TRUE(store_->create_object(kOne, "name"));
  ASSERT_TRUE(store_->create_object(kTwo));
  write(kOne, 0, pattern(50'000, 1));
  write(kTwo, 0, pattern(12'345, 2));
  ASSERT_TRUE(store_->replace(kOne, kTwo));
  EXPECT_EQ(store_->stat(kTwo).error().code, Code::kNotFound);
  reopen();
  EXPECT_EQ(read(*store_->find("name"), 0, 100'000), pattern(12'345, 2));
  EXPECT_EQ(store_->space().used, 4u);
}

TEST_F(StoreTest, ListsInPages) {
  for (uint64_t i = 0; i < 25; ++i) {
    ASSERT_TRUE(store_->create_object({0, i + 1}, i < 5 ? "" : "name " + std::to_string(100 + i)));
  }
  std::optional<Cursor> after;
  std::vector<uint64_t> seen;
  for (;;) {
    const auto page = *store_->list(after, 7);
    for (const auto& object : page) seen.push_back(object.id.low);
    if (page.empty()) break;
    after = Cursor{page.back().name, page.back().id};
  }
  std::vector<uint64_t> expected(25);
  std::iota(expected.begin(), expected.end(), 1);
  EXPECT_EQ(seen, expected);
}

TEST_F(StoreTest, ReadsAtTheEdgesOfWhatCanBe) {
  ASSERT_TRUE(store_->create_object(kOne));
  ASSERT_TRUE(store_->truncate(kOne, kMaxSize));
  Bytes bytes(100);
  EXPECT_EQ(store_->read(kOne, kMaxSize - 10, bytes).value_or(99), 10u);
  EXPECT_EQ(store_->read(kOne, kMaxSize, bytes).value_or(99), 0u);
  EXPECT_EQ(store_->read(kOne, UINT64_MAX, bytes).value_or(99), 0u);
  EXPECT_EQ(store_->write(kOne, kMaxSize - 10, bytes).error().code, Code::kInvalid);
  write(kOne, kMaxSize - 100, pattern(100, 1));
  // However long a hole is, few pieces say so.
  const auto pinned = store_->prepare_read(kOne, 0, UINT64_MAX);
  ASSERT_TRUE(pinned.has_value());
  EXPECT_EQ(pinned->length(), kMaxSize);
  ASSERT_LE(pinned->pieces().size(), 5u);
  uint64_t sum = 0;
  for (const Scatter& piece : pinned->pieces()) sum += uint64_t{piece.bytes} * piece.count;
  EXPECT_EQ(sum, kMaxSize);
}

TEST_F(StoreTest, RegisteredRangesAreKeptFromOthers) {
  constexpr ClientId kOwner = 1;
  constexpr ClientId kStranger = 2;
  make({.enforce_ranges = true});
  ASSERT_TRUE(store_->create_object(kOne));
  ASSERT_TRUE(store_->create_object(kTwo));
  write(kOne, 0, pattern(10'000, 1));
  write(kTwo, 0, pattern(10'000, 2));
  auto early = store_->prepare_write(kOne, 1500, 10, kStranger);
  ASSERT_TRUE(early);
  ASSERT_TRUE(store_->ranges().add(kOwner, kOne, 1000, 1000, Access::kWrite));

  const Bytes bytes(100);
  const auto code = [](const auto& result) {
    return result ? std::optional<Code>() : result.error().code;
  };
  for (const ClientId client : {kStranger, ClientId{0}}) {
    EXPECT_EQ(code(store_->write(kOne, 1999, bytes, client)), Code::kConflict);
    EXPECT_EQ(code(store_->write(kOne, 901, bytes, client)), Code::kConflict);
    EXPECT_EQ(code(store_->prepare_write(kOne, 0, 1001, client)), Code::kConflict);
    EXPECT_EQ(code(store_->truncate(kOne, 1999, client)), Code::kConflict);
    EXPECT_EQ(code(store_->replace(kOne, kTwo, client)), Code::kConflict);
    const CloneRequest over{.from = kTwo, .to = kOne, .allow_existing = true};
    EXPECT_EQ(code(store_->clone(over, client)), Code::kConflict);
  }
  EXPECT_EQ(code(early->commit({})), Code::kConflict);
  EXPECT_EQ(read(kOne, 0, 10'000), pattern(10'000, 1));

  EXPECT_TRUE(store_->write(kOne, 900, bytes, kStranger));
  EXPECT_TRUE(store_->write(kOne, 2000, bytes, kStranger));
  EXPECT_TRUE(store_->write(kOne, 1950, bytes, kOwner));
  EXPECT_TRUE(store_->truncate(kOne, 2000, kStranger));
  store_->ranges().drop(kOwner);
  EXPECT_TRUE(store_->write(kOne, 1999, bytes, kStranger));
  EXPECT_TRUE(store_->replace(kOne, kTwo, kStranger));
}

TEST(VolatileStore, WorksWithoutALog) {
  medium::MallocOptions options;
  options.block_bytes = kPerBlock * kChunkBytes;
  options.capacity = 8;
  SeededRandom random(1);
  auto backend = medium::make_malloc_backend(options);
  ASSERT_TRUE(backend.has_value());
  auto store = Store::create(std::move(*backend), {}, random);
  ASSERT_TRUE(store.has_value()) << store.error().what;
  ASSERT_TRUE((*store)->create_object(kOne));
  for (uint64_t i = 0; i < 100; ++i) {
    ASSERT_TRUE((*store)->write(kOne, i * 1000, pattern(50'000, i)));
  }
  Bytes bytes(50'000);
  ASSERT_TRUE((*store)->read(kOne, 99'000, bytes));
  EXPECT_EQ(bytes, pattern(50'000, 99));
  EXPECT_TRUE((*store)->flush());
}

}  // namespace
}  // namespace verbena::store
