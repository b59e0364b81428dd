// SPDX-License-Identifier: Apache-2.0
#include "store_cli/object_data.h"

#include <numeric>

#include <gtest/gtest.h>

#include "base/random.h"
#include "medium/malloc_backend.h"
#include "store/crc_parts.h"
#include "store/store.h"
#include "store_cli/testing.h"

namespace verbena::store_cli {
namespace {

using store::ObjectId;

constexpr ObjectId kObject{1, 1};

// An object of nine chunks, of which the third and the fourth are a hole.
class ObjectDataTest : public testing::Test {
 protected:
  ObjectDataTest() {
    medium::MallocOptions options;
    options.block_bytes = 64 * store::kChunkBytes;
    options.capacity = 32;
    SeededRandom random(7);
    store_ = std::move(
        store::Store::create(medium::make_malloc_backend(options).value(), {}, random).value());
    EXPECT_TRUE(store_->create_object(kObject));
    bytes_.resize(9 * store::kDataBytes - 5);
    std::iota(bytes_.begin(), bytes_.end(), uint8_t{1});
    std::fill(bytes_.begin() + kHole, bytes_.begin() + kBehind, uint8_t{0});
    EXPECT_TRUE(store_->write(kObject, 0, std::span(bytes_).first(kHole)));
    EXPECT_TRUE(store_->write(kObject, kBehind, std::span(bytes_).subspan(kBehind)));
    plain_ = std::make_unique<PlainObjects>(*store_);
  }
  [[nodiscard]] DataRange data(const store::Objects& objects, uint64_t at, uint64_t end) const {
    return next_data(objects, objects.stat(kObject).value(), at, end).value();
  }
  static constexpr uint64_t kHole = 2 * store::kDataBytes;
  static constexpr uint64_t kBehind = 4 * store::kDataBytes;
  std::vector<uint8_t> bytes_;
  std::unique_ptr<store::Store> store_;
  std::unique_ptr<PlainObjects> plain_;
};

TEST_F(ObjectDataTest, HolesAreFound) {
  EXPECT_EQ(data(*store_, 0, 30'000).end, kHole);
  EXPECT_EQ(data(*store_, kHole, 30'000).begin, kBehind);
}

TEST_F(ObjectDataTest, AllIsDataWhereTheStoreDoesNotTell) {
  EXPECT_EQ(data(*plain_, 100, 30'000).begin, 100U);
  EXPECT_EQ(data(*plain_, 100, 30'000).end, 30'000U);
}

TEST_F(ObjectDataTest, CrcIsThatOfTheBytes) {
  const auto crc = [&](const store::Objects& objects) {
    return object_crc(objects, objects.stat(kObject).value(), [](uint64_t) { return true; });
  };
  EXPECT_EQ(crc(*store_), store::crc_of(bytes_));
  EXPECT_EQ(crc(*plain_), store::crc_of(bytes_));
}

TEST_F(ObjectDataTest, StoredCrcEndsWithTheObject) {
  EXPECT_EQ(store_->stored_crc(kObject, 0, bytes_.size()), store::crc_of(bytes_));
  const auto past = store_->stored_crc(kObject, 0, bytes_.size() + 1);
  ASSERT_FALSE(past);
  EXPECT_EQ(past.error().code, store::Code::kInvalid);
  EXPECT_EQ(plain_->stored_crc(kObject, 0, 1).error().code, store::Code::kUnsupported);
  EXPECT_EQ(plain_->segments(kObject, 0, 1).error().code, store::Code::kUnsupported);
}

}  // namespace
}  // namespace verbena::store_cli
