// SPDX-License-Identifier: Apache-2.0
#include "store_cli/draft.h"

#include <filesystem>
#include <numeric>

#include <gtest/gtest.h>

#include "base/random.h"
#include "medium/malloc_backend.h"
#include "store/drafts.h"
#include "store/store.h"

namespace verbena::store_cli {
namespace {

using store::ObjectId;
using Bytes = std::vector<uint8_t>;

constexpr ObjectId kOne{1, 1};
constexpr ObjectId kTwo{1, 2};

class DraftTest : public testing::Test {
 protected:
  DraftTest() {
    medium::MallocOptions options;
    options.block_bytes = 64 * store::kChunkBytes;
    options.capacity = 32;
    SeededRandom random(7);
    store_ = std::move(
        store::Store::create(medium::make_malloc_backend(options).value(), {}, random).value());
  }
  static Bytes bytes(size_t size, uint8_t first) {
    Bytes all(size);
    std::iota(all.begin(), all.end(), first);
    return all;
  }
  [[nodiscard]] Bytes content(ObjectId id) const {
    Bytes all(store_->stat(id).value().size);
    EXPECT_EQ(store_->read(id, 0, all).value(), all.size());
    return all;
  }
  void put(ObjectId id, const Bytes& content) {
    ASSERT_TRUE(store_->create_object(id, "name of " + text_of(id)));
    ASSERT_TRUE(store_->write(id, 0, content));
  }
  [[nodiscard]] size_t objects() const { return store_->list({}, 1000)->size(); }
  std::unique_ptr<store::Store> store_;
};

TEST_F(DraftTest, BecomesANewObject) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{10000}}) {
    auto draft = Draft::empty(*store_).value();
    if (size > 0) {
      ASSERT_TRUE(store_->write(draft.id(), 0, bytes(size, 3)));
    }
    ASSERT_FALSE(store_->stat(kOne));
    ASSERT_TRUE(draft.become(kOne, false, "one"));
    EXPECT_EQ(content(kOne), bytes(size, 3));
    EXPECT_EQ(store_->find("one"), kOne);
    EXPECT_EQ(objects(), 1U);
    ASSERT_TRUE(store_->remove(kOne));
  }
}

TEST_F(DraftTest, TakesThePlaceOfAnOldOne) {
  for (const size_t size : {size_t{0}, size_t{1}, size_t{5000}, size_t{20000}}) {
    put(kOne, bytes(10000, 1));
    auto draft = Draft::empty(*store_).value();
    if (size > 0) {
      ASSERT_TRUE(store_->write(draft.id(), 0, bytes(size, 3)));
    }
    EXPECT_EQ(content(kOne), bytes(10000, 1));
    ASSERT_TRUE(draft.become(kOne, true, {}));
    EXPECT_EQ(content(kOne), bytes(size, 3));
    EXPECT_EQ(store_->stat(kOne).value().name, "name of 1:1");
    EXPECT_EQ(objects(), 1U);
    ASSERT_TRUE(store_->remove(kOne));
  }
}

TEST_F(DraftTest, IsGoneIfItBecomesNothing) {
  put(kOne, bytes(10000, 1));
  { const auto draft = Draft::empty(*store_).value(); }
  { const auto draft = Draft::clone(*store_, {.from = kOne, .to = {}, .to_name = {}}).value(); }
  EXPECT_EQ(objects(), 1U);
  EXPECT_EQ(content(kOne), bytes(10000, 1));
}

TEST_F(DraftTest, ThatCannotBecomeWhatItShouldIsGoneToo) {
  put(kOne, bytes(10, 1));
  {
    auto draft = Draft::empty(*store_).value();
    EXPECT_FALSE(draft.become(kTwo, false, "name of 1:1"));
    EXPECT_FALSE(draft.become(kTwo, true, {}));
  }
  EXPECT_EQ(objects(), 1U);
}

TEST_F(DraftTest, MayBeginAsAPartOfAnother) {
  put(kOne, bytes(20000, 1));
  auto draft =
      Draft::clone(*store_,
                   {.from = kOne, .to = {}, .from_offset = 100, .length = 9000, .to_name = {}})
          .value();
  ASSERT_TRUE(draft.become(kTwo, false, {}));
  EXPECT_EQ(content(kTwo), bytes(9000, 101));
}

TEST(RandomId, IsNeverReserved) {
  EXPECT_NE(random_id(), random_id());
  EXPECT_NE(random_id().high, store::kDraftHigh);
}

}  // namespace
}  // namespace verbena::store_cli
