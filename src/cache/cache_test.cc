// SPDX-License-Identifier: Apache-2.0
#include "cache/cache.h"

#include <map>

#include <gtest/gtest.h>

#include "cache/cache_testing.h"

namespace verbena::cache {
namespace {

TEST_F(CacheTest, MoreThanThereIsRoomFor) {
  std::map<std::string, Bytes> model;
  for (uint64_t i = 0; i < 20; ++i) {
    const std::string name = "object " + std::to_string(i);
    model[name] = pattern(300'000, i);
    put(name, model[name]);
  }
  EXPECT_GT(cache_->counter(Counter::kEvictedChunks), 0u);
  for (const auto& [name, bytes] : model) ASSERT_EQ(get(name), bytes) << name;
  EXPECT_GT(cache_->counter(Counter::kLoads), 0u);
  // And from there alone.
  ASSERT_TRUE(cache_->flush_all());
  begin();
  for (const auto& [name, bytes] : model) ASSERT_EQ(get(name), bytes) << name;
  EXPECT_EQ(cache_->counter(Counter::kAdopted), 20u);
}

TEST_F(CacheTest, RemovalsAndRenamesReachWhatIsBehind) {
  put("a", pattern(10'000, 1));
  put("b", pattern(200'000, 2));
  put("c", pattern(100, 3));
  ASSERT_TRUE(cache_->flush_all());
  EXPECT_EQ(cache_->evict_all(), 3u + 50u);
  ASSERT_TRUE(cache_->remove(id_of("a")));
  ASSERT_TRUE(cache_->rename(id_of("b"), "d"));
  EXPECT_TRUE(behind_.state({"a", {}})) << "later";
  crash();
  EXPECT_FALSE(store_->find("a")) << "not again from behind";
  EXPECT_FALSE(store_->find("b"));
  ASSERT_TRUE(cache_->flush_all());
  EXPECT_FALSE(behind_.state({"a", {}}));
  EXPECT_FALSE(behind_.state({"b", {}}));
  EXPECT_TRUE(behind_.state({"d", {}}));
  begin();
  EXPECT_EQ(get("d"), pattern(200'000, 2));
  EXPECT_EQ(get("c"), pattern(100, 3));
  EXPECT_FALSE(store_->find("a"));
  EXPECT_FALSE(store_->find("b"));
}

TEST_F(CacheTest, ANewObjectOfTheNameOfARemovedOne) {
  put("a", pattern(10'000, 1));
  ASSERT_TRUE(cache_->flush_all());
  ASSERT_TRUE(cache_->remove(id_of("a")));
  put("a", pattern(20'000, 2));
  crash();
  EXPECT_EQ(get("a"), pattern(20'000, 2));
  ASSERT_TRUE(cache_->flush_all());
  crash();
  begin();
  EXPECT_EQ(get("a"), pattern(20'000, 2));
}

TEST_F(CacheTest, AFlushThatFailsLeavesItUnflushed) {
  put("a", pattern(100'000, 1));
  tier_.set({.fail_ppm = 1'000'000});
  const auto failed = cache_->flush(id_of("a"));
  ASSERT_FALSE(failed.has_value());
  EXPECT_FALSE(store_->stat(id_of("a"))->flushed);
  EXPECT_FALSE(cache_->flush_all());
  EXPECT_EQ(cache_->evict_all(), 0u);
  EXPECT_EQ(get("a"), pattern(100'000, 1));
  tier_.set({});
  ASSERT_TRUE(cache_->flush_all()) << "it is tried again";
  EXPECT_TRUE(store_->stat(id_of("a"))->flushed);
  // What is only behind cannot be read while that is away; what is here can.
  put("b", pattern(50'000, 2));
  EXPECT_EQ(cache_->evict(id_of("a")).value(), 25u);
  tier_.set({.fail_ppm = 1'000'000});
  Bytes bytes(100);
  const auto read = cache_->run([&] { return store_->read(id_of("a"), 0, bytes); });
  ASSERT_FALSE(read.has_value());
  EXPECT_EQ(read.error().code, Code::kIo);
  EXPECT_EQ(get("b"), pattern(50'000, 2));
  tier_.set({});
  EXPECT_EQ(get("a"), pattern(100'000, 1));
}

TEST_F(CacheTest, FullAndNothingCanLeave) {
  tier_.set({.fail_ppm = 1'000'000});
  const ObjectId id{1, 1};
  ASSERT_TRUE(store_->create_object(id, "a"));
  Result<void> done;
  uint64_t at = 0;
  for (; done && at < 10'000'000; at += 40'000) {
    done = cache_->run([&] { return store_->write(id, at, pattern(40'000, at)); });
  }
  ASSERT_FALSE(done.has_value());
  EXPECT_EQ(done.error().code, Code::kFull);
  tier_.set({});
  done = cache_->run([&] { return store_->write(id, at, pattern(40'000, at)); });
  EXPECT_TRUE(done.has_value()) << done.error().what;
}

TEST_F(CacheTest, ChangedByOthers) {
  const auto change = [&](const std::string& name, uint64_t seed, size_t size) {
    const auto now = behind_.state({name, {}});
    backend::NewState wanted{.base = std::nullopt, .state = {seed + 12345, size, 777}};
    if (now) wanted.base = now->version;
    auto update = behind_.update({name, {}}, wanted);
    ASSERT_TRUE(update.has_value());
    const Bytes bytes = pattern(size, seed);
    Bytes padded = bytes;
    padded.resize((size + backend::kPartBytes - 1) / backend::kPartBytes * backend::kPartBytes);
    for (size_t i = 0; i * backend::kPartBytes < padded.size(); ++i) {
      const uint8_t* const part = padded.data() + i * backend::kPartBytes;
      const backend::PartToPut one{part, store::crc_of({part, backend::kPartBytes})};
      ASSERT_TRUE((*update)->put(i, {&one, 1}));
    }
    ASSERT_TRUE((*update)->commit());
  };
  put("a", pattern(100'000, 1));
  put("b", pattern(100'000, 2));
  put("c", pattern(100'000, 3));
  ASSERT_TRUE(cache_->flush_all());
  cache_->evict_all();
  // While it runs: whoever needs it from there gets what is there now.
  change("a", 50, 60'000);
  EXPECT_EQ(get("a"), pattern(60'000, 50));
  // Here and there: refused, and nothing is mixed.
  ASSERT_TRUE(cache_->run([&] { return store_->write(id_of("b"), 0, pattern(10, 9)); }));
  change("b", 51, 70'000);
  EXPECT_EQ(cache_->flush(id_of("b")).error().code, Code::kConflict);
  Bytes expected = pattern(100'000, 2);
  std::ranges::copy(pattern(10, 9), expected.begin());
  EXPECT_EQ(get("b"), expected);
  ASSERT_TRUE(cache_->remove(id_of("b")));
  // While it does not run.
  change("c", 52, 80'000);
  change("new", 53, 90'000);
  crash();
  EXPECT_EQ(get("c"), pattern(80'000, 52));
  EXPECT_EQ(get("new"), pattern(90'000, 53));
  // Removed there.
  ASSERT_TRUE(behind_.remove({"new", {}}, behind_.state({"new", {}})->version));
  crash();
  EXPECT_FALSE(store_->find("new"));
}

TEST_F(CacheTest, ObjectsWithoutAName) {
  const ObjectId id{5, 6};
  ASSERT_TRUE(store_->create_object(id));
  ASSERT_TRUE(store_->write(id, 0, pattern(5000, 1)));
  ASSERT_TRUE(cache_->flush_all());
  begin();
  Bytes bytes(5000);
  ASSERT_TRUE(cache_->run([&] { return store_->read(id, 0, bytes); }));
  EXPECT_EQ(bytes, pattern(5000, 1));
}

}  // namespace
}  // namespace verbena::cache
