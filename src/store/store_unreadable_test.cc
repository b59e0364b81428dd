// SPDX-License-Identifier: Apache-2.0
// Each chunk of a store in turn cannot be read: nothing ends the process, what is in two copies is
// all there, and of the rest one chunk is damaged, by name.
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "store/store_testing.h"

namespace verbena::store {
namespace {

class StoreUnreadableTest : public StoreTest {
 protected:
  void SetUp() override {
    StoreTest::SetUp();
    ASSERT_TRUE(store_->create_object(kOne, "one") && store_->create_object(kTwo, "two"));
    write(kOne, 0, one_);
    ASSERT_TRUE(store_->checkpoint());
    write(kTwo, 0, two_);
    ASSERT_TRUE(store_->close());
    store_.reset();
    std::ifstream file(path_of_file(), std::ios::binary);
    content_.assign(std::istreambuf_iterator<char>(file), {});
    for (uint64_t chunk = 0; chunk < content_.size() / kChunkBytes; ++chunk) {
      const std::string bytes = content_.substr(chunk * kChunkBytes, kChunkBytes);
      if (bytes != std::string(kChunkBytes, '\0')) used_.push_back(chunk);
    }
    ASSERT_GT(used_.size(), 15U);
  }
  [[nodiscard]] std::string path_of_file() const { return folder_ + "/blocks.0of1.000"; }
  // All that is not zeros, and nothing that came since.
  void restore() const {
    std::filesystem::resize_file(path_of_file(), 0);
    std::filesystem::resize_file(path_of_file(), content_.size());
    std::fstream file(path_of_file(), std::ios::in | std::ios::out | std::ios::binary);
    for (const uint64_t chunk : used_) {
      file.seekp(static_cast<std::streamoff>(chunk * kChunkBytes));
      file.write(content_.data() + chunk * kChunkBytes, kChunkBytes);
    }
  }
  // The file is cut off while the page is looked at, and whole again for all others.
  [[nodiscard]] std::unique_ptr<medium::Backend> backend_without(uint64_t chunk) const {
    auto made = backend();
    const auto block = made->claim(static_cast<uint32_t>(chunk / kPerBlock));
    EXPECT_TRUE(block);
    std::filesystem::resize_file(path_of_file(), chunk * kChunkBytes);
    const auto* const byte = block->memory + chunk % kPerBlock * kChunkBytes;
    EXPECT_EQ(*static_cast<const volatile uint8_t*>(byte), 0);
    restore();
    made->release(*block);
    return made;
  }
  // Whether an object reads as it should; if not, the damage is the chunk's.
  static bool reads(const Store& store, ObjectId id, const Bytes& expected, uint64_t chunk) {
    Bytes bytes(expected.size());
    const auto got = store.read(id, 0, bytes);
    if (got) {
      EXPECT_EQ(bytes, expected);
      return true;
    }
    EXPECT_EQ(got.error().code, Code::kDamaged);
    EXPECT_EQ(got.error().damage.chunk, chunk) << got.error().what;
    EXPECT_EQ(got.error().damage.actual, "unreadable");
    return false;
  }

  const Bytes one_ = pattern(20'000, 1);
  const Bytes two_ = pattern(30'000, 2);
  const Bytes three_ = pattern(50'000, 3);
  std::string content_;
  std::vector<uint64_t> used_;  // chunks
};

TEST_F(StoreUnreadableTest, EachChunkToWhoReads) {
  uint64_t damaged = 0;
  for (const uint64_t chunk : used_) {
    SCOPED_TRACE(chunk);
    auto store = Store::open(backend_without(chunk), {.read_only = true});
    ASSERT_TRUE(store) << store.error().what;
    EXPECT_EQ((*store)->list({}, 10).value().size(), 2U);
    const bool one = reads(**store, kOne, one_, chunk);
    const bool two = reads(**store, kTwo, two_, chunk);
    EXPECT_TRUE(one || two);
    if (!one || !two) ++damaged;
    EXPECT_TRUE((*store)->scrub());
    EXPECT_EQ((*store)->prepare_read(kOne, 0, 20'000).has_value(), one);
  }
  EXPECT_EQ(damaged,
            (20'000 + kDataBytes - 1) / kDataBytes + (30'000 + kDataBytes - 1) / kDataBytes);
}

TEST_F(StoreUnreadableTest, EachChunkToWhoWrites) {
  std::vector<uint64_t> chunks = used_;
  // Free ones that are written next.
  for (uint64_t i = 1; i <= 8; ++i) chunks.push_back(used_.back() + i);
  for (const uint64_t chunk : chunks) {
    SCOPED_TRACE(chunk);
    {
      auto store = Store::open(backend_without(chunk), {});
      ASSERT_TRUE(store) << store.error().what;
      const auto place = (*store)->segments(kOne, 0, 1);
      ASSERT_TRUE(place && place->size() == 1);
      // Part of a chunk that cannot be read is not replaced; all of it is.
      const auto part = (*store)->write(kOne, 5, Bytes(10));
      EXPECT_EQ(part.has_value(), place->front().chunk != chunk);
      ASSERT_TRUE((*store)->write(kOne, 0, one_));
      ASSERT_TRUE((*store)->create_object({1, 3}, "three"));
      ASSERT_TRUE((*store)->write({1, 3}, 0, three_));
      EXPECT_TRUE(reads(**store, {1, 3}, three_, chunk));
      const auto closed = (*store)->close();
      ASSERT_TRUE(closed) << closed.error().what;
    }
    const auto store = Store::open(backend(), {});
    ASSERT_TRUE(store) << store.error().what;
    EXPECT_TRUE(reads(**store, kOne, one_, chunk));
    EXPECT_TRUE(reads(**store, kTwo, two_, chunk));
    EXPECT_TRUE(reads(**store, {1, 3}, three_, chunk));
    const auto scrubbed = (*store)->scrub();
    ASSERT_TRUE(scrubbed);
    EXPECT_EQ(scrubbed->damaged, 0U);
    ASSERT_TRUE((*store)->close());
    restore();
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace verbena::store
