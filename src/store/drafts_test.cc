// SPDX-License-Identifier: Apache-2.0
#include "store/drafts.h"

#include <gtest/gtest.h>

#include "medium/malloc_backend.h"
#include "store/store_testing.h"

namespace verbena::store {
namespace {

class DraftsTest : public testing::Test {
 protected:
  DraftsTest() {
    medium::MallocOptions medium;
    medium.block_bytes = kPerBlock * kChunkBytes;
    medium.capacity = 32;
    Options options;
    options.now_ns = [this] { return now_ns_; };
    SeededRandom random(7);
    store_ = std::move(
        Store::create(medium::make_malloc_backend(medium).value(), options, random).value());
  }
  [[nodiscard]] size_t objects() const { return store_->list({}, 1000)->size(); }
  uint64_t now_ns_ = 1000;
  std::unique_ptr<Store> store_;
};

TEST_F(DraftsTest, AreRemovedAndNothingElse) {
  ASSERT_TRUE(store_->create_object(kOne, "name"));
  ASSERT_TRUE(store_->create_object({kDraftHigh - 1, UINT64_MAX}, "another"));
  ASSERT_TRUE(store_->create_object({kDraftHigh - 1, 5}));
  for (uint64_t i = 0; i < 250; ++i) ASSERT_TRUE(store_->create_object({kDraftHigh, i}));
  EXPECT_EQ(remove_drafts(*store_), 250U);
  EXPECT_EQ(remove_drafts(*store_), 0U);
  EXPECT_EQ(objects(), 3U);
}

// As a server does that has clients: what they are writing to stays.
TEST_F(DraftsTest, AreRemovedIfNobodyHasWrittenToThemForLong) {
  constexpr ObjectId kAbandoned{kDraftHigh, 120};
  constexpr ObjectId kSlow{kDraftHigh, 121};
  for (uint64_t i = 0; i < 250; ++i) {
    const bool old = i == kAbandoned.low || i == kSlow.low;
    now_ns_ = old ? 1000 : 3000;
    ASSERT_TRUE(store_->create_object({kDraftHigh, i}));
  }
  now_ns_ = 3000;
  ASSERT_TRUE(store_->write(kSlow, 0, Bytes(10)));
  EXPECT_EQ(remove_drafts(*store_, 2000), 1U);
  EXPECT_FALSE(store_->stat(kAbandoned));
  EXPECT_TRUE(store_->stat(kSlow));
  EXPECT_EQ(objects(), 249U);
  EXPECT_EQ(remove_drafts(*store_, 2000), 0U);
}

// The time of the original says nothing about its clone.
TEST_F(DraftsTest, OfAnOldObjectAreNew) {
  ASSERT_TRUE(store_->create_object(kOne, "one"));
  ASSERT_TRUE(store_->write(kOne, 0, Bytes(10'000)));
  now_ns_ = 3000;
  ASSERT_TRUE(store_->clone({.from = kOne, .to = {kDraftHigh, 1}}));
  EXPECT_EQ(remove_drafts(*store_, 2000), 0U);
}

}  // namespace
}  // namespace verbena::store
