// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"
#include "medium/balance_backend.h"
#include "store/directory.h"
#include "store/memory_medium.h"
#include "store/record.h"
#include "store/store_testing.h"
#include "store/superblock.h"

namespace verbena::store {
namespace {

constexpr uint32_t kCompactPerBlock = 16;
constexpr uint32_t kCompactBlocks = 120;

class CompactTest : public ::testing::Test {
 protected:
  CompactTest() : medium_(kCompactPerBlock, kCompactBlocks) {
    auto made = Store::create(medium_.open(), options());
    VERBENA_CHECK(made);
    store_ = std::move(*made);
  }
  Options options(bool read_only = false) {
    Options options;
    options.read_only = read_only;
    options.now_ns = [this] { return ++clock_; };
    return options;
  }
  void reopen(bool read_only = false) {
    ASSERT_TRUE(store_->close());
    store_.reset();
    OpenReport report;
    auto opened = Store::open(medium_.open(), options(read_only), &report);
    ASSERT_TRUE(opened) << opened.error().what;
    EXPECT_TRUE(report.damage.empty());
    store_ = std::move(*opened);
  }
  std::vector<uint8_t> bytes(size_t length) {
    std::vector<uint8_t> bytes(length);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random_.next());
    return bytes;
  }
  void put(ObjectId id, size_t length) {
    ASSERT_TRUE(store_->create_object(id));
    contents_[id] = bytes(length);
    ASSERT_TRUE(store_->write(id, 0, contents_[id]));
  }
  // Most of what is at the beginning goes.
  void fill_and_empty() {
    for (uint64_t i = 1; i <= 80; ++i) ASSERT_NO_FATAL_FAILURE(put({0, i}, 9 * kDataBytes + 17));
    for (uint64_t i = 1; i <= 80; ++i) {
      if (i % 10 == 0) continue;
      ASSERT_TRUE(store_->remove({0, i}));
      contents_.erase({0, i});
    }
    ASSERT_TRUE(store_->flush());
  }
  void expect_contents() {
    for (const auto& [id, expected] : contents_) {
      std::vector<uint8_t> got(expected.size() + 1);
      const auto n = store_->read(id, 0, got);
      ASSERT_TRUE(n) << n.error().what;
      got.resize(*n);
      EXPECT_EQ(got, expected);
    }
    const auto scrubbed = store_->scrub();
    ASSERT_TRUE(scrubbed);
    EXPECT_EQ(scrubbed->damaged, 0u);
  }

  SeededRandom random_{5};
  uint64_t clock_ = 1'700'000'000'000'000'000;
  MemoryMedium medium_;
  std::unique_ptr<Store> store_;
  std::map<ObjectId, std::vector<uint8_t>> contents_;
};

TEST_F(CompactTest, GivesTheEndBack) {
  ASSERT_NO_FATAL_FAILURE(fill_and_empty());
  std::map<ObjectId, ObjectInfo> before;
  for (const auto& [id, unused] : contents_) before[id] = *store_->stat(id);
  const uint32_t existing = medium_.existing;
  const auto report = store_->compact();
  ASSERT_TRUE(report) << report.error().what;
  EXPECT_TRUE(report->whole);
  EXPECT_GT(report->moved, 0u);
  EXPECT_EQ(report->blocks_before, existing);
  EXPECT_EQ(report->blocks, medium_.existing);
  EXPECT_LT(medium_.existing, existing / 2);
  expect_contents();
  for (const auto& [id, info] : before) {
    EXPECT_EQ(store_->stat(id)->modified_ns, info.modified_ns);
    EXPECT_EQ(store_->stat(id)->chunks, info.chunks);
  }
  ASSERT_NO_FATAL_FAILURE(reopen());
  expect_contents();
  // And it grows again.
  for (uint64_t i = 100; i < 140; ++i) ASSERT_NO_FATAL_FAILURE(put({0, i}, 10 * kDataBytes));
  ASSERT_NO_FATAL_FAILURE(reopen(true));
  expect_contents();
}

TEST_F(CompactTest, AnEmptyStoreIsSmall) {
  for (uint64_t i = 1; i <= 80; ++i) ASSERT_NO_FATAL_FAILURE(put({0, i}, 9 * kDataBytes));
  for (uint64_t i = 1; i <= 80; ++i) ASSERT_TRUE(store_->remove({0, i}));
  contents_.clear();
  ASSERT_TRUE(store_->compact());
  ASSERT_TRUE(store_->compact());
  EXPECT_LE(medium_.existing, 2 + 2 * (128 / kCompactPerBlock + 3) + 8);
  ASSERT_NO_FATAL_FAILURE(reopen());
  ASSERT_NO_FATAL_FAILURE(put({0, 1}, 100'000));
  ASSERT_NO_FATAL_FAILURE(reopen());
  expect_contents();
}

// What removed objects have in the index is known of a store that was opened, too.
TEST_F(CompactTest, AStoreThatWasOpenedKnowsTheSizeOfItsIndex) {
  for (uint64_t i = 1; i <= 60; ++i) ASSERT_NO_FATAL_FAILURE(put({0, i}, 9 * kDataBytes));
  for (uint64_t i = 61; i <= 160; ++i) ASSERT_NO_FATAL_FAILURE(put({0, i}, kMaxContentBytes));
  ASSERT_NO_FATAL_FAILURE(reopen());
  const uint32_t existing = medium_.existing;
  for (uint64_t i = 2; i <= 160; ++i) {
    ASSERT_TRUE(store_->remove({0, i}));
    contents_.erase({0, i});
  }
  const auto report = store_->compact();
  ASSERT_TRUE(report) << report.error().what;
  EXPECT_TRUE(report->whole);
  EXPECT_LT(medium_.existing, existing / 2);
  expect_contents();
}

TEST_F(CompactTest, WhatIsSharedStaysSo) {
  for (uint64_t i = 1; i <= 60; ++i) ASSERT_NO_FATAL_FAILURE(put({0, i}, 12 * kDataBytes));
  const auto clone = [&](uint64_t to, uint64_t offset, uint64_t length) {
    CloneRequest request;
    request.from = {0, 60};
    request.to = {1, to};
    request.from_offset = request.to_offset = offset;
    request.length = length;
    ASSERT_TRUE(store_->clone(request));
    auto& content = contents_[{1, to}];
    content.assign(offset + length, 0);
    const auto& from = contents_[{0, 60}];
    std::copy_n(from.begin() + static_cast<ptrdiff_t>(offset), length,
                content.begin() + static_cast<ptrdiff_t>(offset));
  };
  clone(1, 0, 12 * kDataBytes);
  clone(2, 2 * kDataBytes, 3 * kDataBytes);
  clone(3, 4 * kDataBytes, 8 * kDataBytes);
  for (uint64_t i = 1; i < 60; ++i) {
    ASSERT_TRUE(store_->remove({0, i}));
    contents_.erase({0, i});
  }
  ASSERT_TRUE(store_->flush() && store_->flush());
  const uint64_t used = store_->space().used;
  EXPECT_EQ(used, 12u);
  const auto report = store_->compact();
  ASSERT_TRUE(report);
  EXPECT_GT(report->moved, 12u);
  EXPECT_EQ(store_->space().used, used);
  EXPECT_TRUE(store_->segments({0, 60}, 0, 1)->front().shared);
  ASSERT_NO_FATAL_FAILURE(reopen());
  EXPECT_EQ(store_->space().used, used);
  expect_contents();
}

TEST_F(CompactTest, WhatIsDamagedStaysWhereItIs) {
  ASSERT_NO_FATAL_FAILURE(fill_and_empty());
  const uint64_t chunk = store_->segments({0, 80}, 0, 1)->front().chunk;
  medium_.chunk(chunk)[77] ^= 1;
  const auto report = store_->compact();
  ASSERT_TRUE(report);
  EXPECT_FALSE(report->whole);
  ASSERT_EQ(report->damage.size(), 1u);
  EXPECT_EQ(report->damage[0].object, (ObjectId{0, 80}));
  std::vector<uint8_t> got(100);
  EXPECT_FALSE(store_->read({0, 80}, 0, got));
  EXPECT_EQ(store_->segments({0, 80}, 0, 1)->front().chunk, chunk);
  medium_.chunk(chunk)[77] ^= 1;
  expect_contents();
}

template <typename Each>
void each_part(std::span<const Scatter> pieces, Each each) {
  for (const Scatter& piece : pieces) {
    for (uint32_t i = 0; i < piece.count; ++i) {
      each(piece.memory + size_t{i} * piece.stride, piece.bytes);
    }
  }
}

// What others hold is theirs as long as they do; what they write arrives.
TEST_F(CompactTest, BesideReadersAndWriters) {
  ASSERT_NO_FATAL_FAILURE(fill_and_empty());
  auto read = store_->prepare_read({0, 80}, 0, 9 * kDataBytes);
  ASSERT_TRUE(read);
  auto write = store_->prepare_write({0, 70}, 100, 5 * kDataBytes);
  ASSERT_TRUE(write);
  const auto fresh = bytes(5 * kDataBytes);
  size_t at = 0;
  each_part(write->pieces(), [&](uint8_t* part, size_t length) {
    std::copy_n(fresh.begin() + static_cast<ptrdiff_t>(at), length, part);
    at += length;
  });
  ASSERT_TRUE(store_->compact());
  at = 0;
  each_part(read->pieces(), [&](const uint8_t* part, size_t length) {
    EXPECT_TRUE(
        std::equal(part, part + length, contents_[{0, 80}].begin() + static_cast<ptrdiff_t>(at)));
    at += length;
  });
  ASSERT_TRUE(write->commit({}));
  std::ranges::copy(fresh, contents_[{0, 70}].begin() + 100);
  expect_contents();
  *read = PreparedRead();
  *write = PreparedWrite();
  ASSERT_TRUE(store_->compact());
  ASSERT_NO_FATAL_FAILURE(reopen());
  expect_contents();
}

// Meanwhile the log comes to the last chunks of an extent that it is to leave, and has the next
// one, which is where it may stay: there is no gap between what it had and what it goes on with.
TEST_F(CompactTest, TheLogGoesOnWithoutAGap) {
  ASSERT_NO_FATAL_FAILURE(fill_and_empty());
  std::optional<Extent> left;
  std::optional<Extent> next;
  const auto append_until_it_turns_back = [&](uint64_t, uint64_t) {
    for (int i = 0; i < 100 && !next; ++i) {
      EXPECT_TRUE(store_->rename({0, 80}, std::to_string(i)) && store_->flush());
      const Extent last = decode_superblock(medium_.chunk(0))->log.back();
      if (left && last.block_b < left->block_a) next = last;
      if (!next) left = last;
    }
    return true;
  };
  const auto report = store_->compact(append_until_it_turns_back);
  ASSERT_TRUE(report) << report.error().what;
  ASSERT_TRUE(next);
  ASSERT_LE(medium_.existing, left->block_a) << "the log was not to leave it";
  ASSERT_GT(medium_.existing, next->block_b) << "the log was to leave this one, too";
  ASSERT_NO_FATAL_FAILURE(put({1, 1}, 1000));
  ASSERT_TRUE(store_->flush());
  ASSERT_NO_FATAL_FAILURE(reopen());
  expect_contents();
}

TEST_F(CompactTest, IsStopped) {
  ASSERT_NO_FATAL_FAILURE(fill_and_empty());
  const auto report = store_->compact([](uint64_t, uint64_t) { return false; });
  ASSERT_TRUE(report);
  EXPECT_FALSE(report->whole);
  EXPECT_EQ(report->moved, 0u);
  expect_contents();
}

// What the smaller of two media has no room for stays on the other, and the rest goes.
TEST(CompactUnequal, TheLargerOneIsMadeSmaller) {
  MemoryMedium small(kCompactPerBlock, 4);
  MemoryMedium large(kCompactPerBlock, 120);
  std::vector<std::unique_ptr<medium::Backend>> media;
  media.push_back(small.open());
  media.push_back(large.open());
  auto store = Store::create(medium::make_balance_backend(std::move(media)), {});
  ASSERT_TRUE(store) << store.error().what;
  const Bytes content = pattern(9 * kDataBytes, 3);
  for (uint64_t i = 1; i <= 100; ++i) {
    ASSERT_TRUE((*store)->create_object({0, i}) && (*store)->write({0, i}, 0, content));
  }
  for (uint64_t i = 1; i <= 100; i += 2) ASSERT_TRUE((*store)->remove({0, i}));
  const uint32_t before = small.existing + large.existing;
  const auto report = (*store)->compact();
  ASSERT_TRUE(report) << report.error().what;
  EXPECT_TRUE(report->whole);
  EXPECT_EQ(report->blocks_before, before);
  EXPECT_EQ(report->blocks, small.existing + large.existing);
  EXPECT_LT(report->blocks, before - 10);
  for (uint64_t i = 2; i <= 100; i += 2) {
    Bytes got(content.size());
    ASSERT_TRUE((*store)->read({0, i}, 0, got));
    EXPECT_EQ(got, content);
  }
  EXPECT_EQ((*store)->scrub()->damaged, 0u);
  ASSERT_TRUE((*store)->close());
}

// Files of two folders go, and come again.
TEST(CompactDirectory, RemovesFiles) {
  namespace fs = std::filesystem;
  std::string root = ::testing::TempDir() + "verbena-compact-XXXXXX";
  ASSERT_NE(mkdtemp(root.data()), nullptr);
  const std::vector<std::string> folders{root + "/a", root + "/b"};
  const auto size = [&] {
    uint64_t sum = 0;
    for (const auto& entry : fs::recursive_directory_iterator(root)) {
      if (entry.is_regular_file()) sum += entry.file_size();
    }
    return sum;
  };
  DirectoryOptions options;
  options.chunks_per_block = 64;
  options.capacity_bytes = 256 * 64 * kChunkBytes;
  for (const bool staged : {false, true}) {
    SCOPED_TRACE(staged);
    options.kind = staged ? Kind::kStaged : Kind::kMapped;
    const Bytes content = pattern(500'000, 3);
    {
      auto store = DirectoryStore::create(folders, options);
      ASSERT_TRUE(store) << store.error().what;
      for (int round = 0; round < 2; ++round) {
        for (uint64_t i = 1; i <= 40; ++i) {
          ASSERT_TRUE((*store)->create_object({0, i}) && (*store)->write({0, i}, 0, content));
        }
        const uint64_t full = size();
        for (uint64_t i = 1; i < 40; ++i) ASSERT_TRUE((*store)->remove({0, i}));
        const auto report = (*store)->compact();
        ASSERT_TRUE(report) << report.error().what;
        EXPECT_TRUE(report->whole);
        EXPECT_LT(size(), full / 3);
        Bytes got(content.size());
        ASSERT_TRUE((*store)->read({0, 40}, 0, got));
        EXPECT_EQ(got, content);
        ASSERT_TRUE((*store)->remove({0, 40}));
      }
      ASSERT_TRUE((*store)->create_object({0, 1}) && (*store)->write({0, 1}, 0, content));
      ASSERT_TRUE((*store)->close());
    }
    OpenReport report;
    auto store = DirectoryStore::open(folders, options, &report);
    ASSERT_TRUE(store) << store.error().what;
    EXPECT_TRUE(report.damage.empty() && report.files.empty());
    Bytes got(content.size());
    ASSERT_TRUE((*store)->read({0, 1}, 0, got));
    EXPECT_EQ(got, content);
    ASSERT_TRUE((*store)->close());
    for (const std::string& folder : folders) fs::remove_all(folder);
  }
  fs::remove_all(root);
}

}  // namespace
}  // namespace verbena::store
