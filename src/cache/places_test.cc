// SPDX-License-Identifier: Apache-2.0
// Objects that are behind under another key than their own.
#include "cache/cache_testing.h"
#include "store/drafts.h"

namespace verbena::cache {
namespace {

class PlacesTest : public CacheTest {
 protected:
  // Larger than the store.
  static Bytes large(uint64_t seed) {
    return pattern(size_t{kPerBlock} * kBlocks * store::kDataBytes + 12'345, seed);
  }
  void put_draft(ObjectId draft, const Bytes& bytes) {
    ASSERT_TRUE(cache_->run([&] { return store_->create_object(draft); }));
    write_all(draft, bytes);
  }
  size_t count_behind() {
    size_t count = 0;
    EXPECT_TRUE(behind_.list([&](const backend::Entry&) { return ++count > 0; }));
    return count;
  }
};

TEST_F(PlacesTest, RenamesAndClonesFetchNothing) {
  const Bytes bytes = large(1);
  put("a", bytes);
  ASSERT_TRUE(cache_->flush_all());
  cache_->evict_all();
  ASSERT_TRUE(cache_->rename(id_of("a"), "b"));
  ASSERT_TRUE(cache_->clone({.from = id_of("b"), .to = {7, 7}, .to_name = "c"}, store::kNoClient));
  ASSERT_TRUE(cache_->flush_all());
  EXPECT_EQ(cache_->counter(Counter::kLoads), 0u);
  EXPECT_EQ(count_behind(), 2u);
  EXPECT_EQ(get("b"), bytes);
  EXPECT_EQ(get("c"), bytes);
}

TEST_F(PlacesTest, WhatAnotherStillUsesIsSetAside) {
  put("a", pattern(300'000, 1));
  put("b", pattern(200'000, 2));
  ASSERT_TRUE(cache_->flush_all());
  cache_->evict_all();
  ASSERT_TRUE(cache_->rename(id_of("a"), "c"));
  ASSERT_TRUE(cache_->rename(id_of("b"), "a"));
  ASSERT_TRUE(cache_->rename(id_of("c"), "b"));
  // Each needs the place of the other. Killed when one of them is there.
  ASSERT_TRUE(cache_->flush(id_of("b")));
  crash();
  EXPECT_EQ(get("a"), pattern(200'000, 2));
  EXPECT_EQ(get("b"), pattern(300'000, 1));
  ASSERT_TRUE(cache_->flush_all());
  EXPECT_EQ(count_behind(), 2u);
  begin();
  EXPECT_EQ(get("a"), pattern(200'000, 2));
  EXPECT_EQ(get("b"), pattern(300'000, 1));
}

TEST_F(PlacesTest, ADraftLargerThanTheStoreReplacesAnObject) {
  put("a", pattern(100'000, 1));
  ASSERT_TRUE(cache_->flush_all());
  const ObjectId draft{store::kDraftHigh, 5};
  put_draft(draft, large(2));
  EXPECT_EQ(count_behind(), 2u);
  ASSERT_TRUE(cache_->replace(id_of("a"), draft, store::kNoClient));
  crash();
  EXPECT_EQ(get("a"), large(2));
  ASSERT_TRUE(cache_->flush_all());
  EXPECT_EQ(count_behind(), 1u);
}

TEST_F(PlacesTest, DraftsOfAKilledServerAreRemovedBehind) {
  put("a", pattern(100'000, 1));
  ASSERT_TRUE(cache_->flush_all());
  put_draft({store::kDraftHigh, 5}, large(2));
  EXPECT_EQ(count_behind(), 2u);
  crash();
  EXPECT_EQ(count_behind(), 1u);
  EXPECT_EQ(get("a"), pattern(100'000, 1));
}

// It is not known whether a flush of what it had came to its end.
TEST_F(PlacesTest, WhatAnObjectHadIsNotTakenForWhatItGets) {
  put("a", pattern(300'000, 1));
  put("b", pattern(300'000, 2));
  ASSERT_TRUE(cache_->flush_all());
  ASSERT_TRUE(cache_->run([&] { return store_->write(id_of("a"), 0, pattern(5000, 3)); }));
  tier_.set({.lost_answer_ppm = 1'000'000});
  ASSERT_FALSE(cache_->flush(id_of("a")));
  tier_.set({});
  cache_->evict_all();
  ASSERT_TRUE(cache_->replace(id_of("a"), id_of("b"), store::kNoClient));
  ASSERT_TRUE(cache_->flush_all());
  cache_->evict_all();
  EXPECT_EQ(get("a"), pattern(300'000, 2));
  begin();
  EXPECT_EQ(get("a"), pattern(300'000, 2));
}

// Another program has removed what an object was until it was renamed, and another one is to be
// flushed to that name.
TEST_F(PlacesTest, WhatIsNotThereAnyMoreIsInNobodysWay) {
  put("new", pattern(100'000, 2));
  put("a", pattern(300'000, 1));
  ASSERT_TRUE(cache_->flush(id_of("a")));
  ASSERT_TRUE(cache_->rename(id_of("a"), "b"));
  ASSERT_TRUE(cache_->rename(id_of("new"), "a"));
  ASSERT_TRUE(behind_.remove({"a", {}}, behind_.state({"a", {}})->version));
  const auto flushed = cache_->flush_all();
  ASSERT_TRUE(flushed.has_value()) << flushed.error().what;
  EXPECT_TRUE(store_->stat(id_of("a"))->flushed);
  EXPECT_TRUE(store_->stat(id_of("b"))->flushed);
  begin();
  EXPECT_EQ(get("a"), pattern(100'000, 2));
  EXPECT_EQ(get("b"), pattern(300'000, 1));
}

// The same, but parts of it were only there: they are lost. Others are not.
TEST_F(PlacesTest, WhoHasLostItsPlaceKeepsNobodyFromFlushing) {
  put("new", pattern(100'000, 2));
  put("a", pattern(300'000, 1));
  ASSERT_TRUE(cache_->flush(id_of("a")));
  cache_->evict_all();
  ASSERT_TRUE(cache_->rename(id_of("a"), "b"));
  ASSERT_TRUE(cache_->rename(id_of("new"), "a"));
  ASSERT_TRUE(behind_.remove({"a", {}}, behind_.state({"a", {}})->version));
  EXPECT_FALSE(cache_->flush_all());
  const auto flushed = cache_->flush(id_of("a"));
  EXPECT_TRUE(flushed.has_value()) << flushed.error().what;
  EXPECT_FALSE(cache_->flush(id_of("b")));
  EXPECT_FALSE(cache_->run([&] { return store_->check_here(id_of("b")); }));
  ASSERT_TRUE(cache_->remove(id_of("b")));
  EXPECT_TRUE(cache_->flush_all());
  begin();
  EXPECT_EQ(get("a"), pattern(100'000, 2));
}

// Of a store in memory only what is behind is left. An object that was there is there at each
// moment: as it was, or as it is now.
TEST_F(PlacesTest, AnObjectThatIsReplacedIsAlwaysBehind) {
  put("a", pattern(300'000, 1));
  put("b", pattern(300'000, 2));
  ASSERT_TRUE(cache_->flush_all());
  ASSERT_TRUE(cache_->run([&] { return store_->write(id_of("a"), 0, pattern(5000, 3)); }));
  tier_.set({.lost_answer_ppm = 1'000'000});
  ASSERT_FALSE(cache_->flush(id_of("a")));
  tier_.set({});
  ASSERT_TRUE(cache_->replace(id_of("a"), id_of("b"), store::kNoClient));
  watched_.before_state = [&] { EXPECT_TRUE(behind_.state({"a", {}}).has_value()); };
  for (uint64_t calls = 0; calls < 20; ++calls) {
    tier_.set({.calls = calls});
    static_cast<void>(cache_->flush_all());
    EXPECT_TRUE(behind_.state({"a", {}}).has_value()) << calls;
  }
  watched_.before_state = {};
  tier_.set({});
  ASSERT_TRUE(cache_->flush_all());
  begin();
  EXPECT_EQ(get("a"), pattern(300'000, 2));
}

// Those that lose their old names to others first go to their new ones.
TEST_F(PlacesTest, WhoHasAPlaceToGoIsNotSetAside) {
  put("a", pattern(300'000, 1));
  put("b", pattern(200'000, 2));
  put("c", pattern(100'000, 3));
  ASSERT_TRUE(cache_->flush_all());
  cache_->evict_all();
  ASSERT_TRUE(cache_->rename(id_of("c"), "d"));
  ASSERT_TRUE(cache_->rename(id_of("b"), "c"));
  ASSERT_TRUE(cache_->rename(id_of("a"), "b"));
  ASSERT_TRUE(cache_->flush(id_of("b")));
  begin();
  EXPECT_EQ(get("b"), pattern(300'000, 1));
  EXPECT_EQ(get("c"), pattern(200'000, 2));
  EXPECT_EQ(get("d"), pattern(100'000, 3));
}

TEST_F(PlacesTest, RenamedObjectsAreFoundWithoutTheStore) {
  for (uint64_t seed = 1; seed <= 40 && !HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    SeededRandom random(seed);
    std::vector<std::string> names{"a", "b", "c", "d"};
    std::vector<Bytes> all;
    tier_.set({});
    for (size_t i = 0; i < names.size(); ++i) {
      all.push_back(pattern(20'000 + i, 100 * seed + i));
      put(names[i], all.back());
    }
    ASSERT_TRUE(cache_->flush_all());
    cache_->evict_all();
    tier_.set({.fail_ppm = 50'000, .lost_answer_ppm = 50'000});
    for (int step = 0; step < 12; ++step) {
      std::string& name = names[random.below(names.size())];
      const std::string other(1, static_cast<char>('a' + random.below(6)));
      if (random.below(4) == 0) {
        static_cast<void>(random.below(2) == 0 ? cache_->flush(id_of(name)) : cache_->flush_all());
      } else if (cache_->rename(id_of(name), other)) {
        name = other;
      }
    }
    static_cast<void>(cache_->flush(id_of(names[random.below(names.size())])));
    tier_.set({});
    begin();
    std::vector<Bytes> found;
    const auto listed = store_->list({}, 1000);
    ASSERT_TRUE(listed.has_value());
    for (const auto& info : *listed) found.push_back(get(info.name));
    for (const Bytes& bytes : all) EXPECT_TRUE(std::ranges::find(found, bytes) != found.end());
    for (const auto& info : *listed) ASSERT_TRUE(cache_->remove(info.id));
    ASSERT_TRUE(cache_->flush_all());
  }
}

// What an object was stays behind until what it is now is.
TEST_F(PlacesTest, AReplacedAndRenamedObjectIsRemovedWhenItIsFlushed) {
  put("a", pattern(300'000, 1));
  ASSERT_TRUE(cache_->flush_all());
  const ObjectId draft{store::kDraftHigh, 5};
  put_draft(draft, large(2));
  ASSERT_TRUE(cache_->replace(id_of("a"), draft, store::kNoClient));
  ASSERT_TRUE(cache_->rename(id_of("a"), "b"));
  tier_.set({.full_ppm = 1'000'000});
  ASSERT_FALSE(cache_->flush_all());
  EXPECT_TRUE(behind_.state({"a", {}}).has_value());
  tier_.set({});
  ASSERT_TRUE(cache_->flush_all());
  EXPECT_EQ(count_behind(), 1u);
  EXPECT_EQ(get("b"), large(2));
}

}  // namespace
}  // namespace verbena::cache
