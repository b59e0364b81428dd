// SPDX-License-Identifier: Apache-2.0
// Several threads at once, and what one of them may do in the middle of another's work.
#include <atomic>
#include <latch>
#include <map>
#include <thread>

#include "cache/cache_testing.h"

namespace verbena::cache {
namespace {

using store::Code;

class CacheThreadsTest : public CacheTest {
 protected:
  // Writes new objects until there is no room.
  void fill_up() {
    for (int i = 0; i < 1000; ++i) {
      const ObjectId id{2, ++last_id_};
      if (!store_->create_object(id)) return;
      if (!store_->write(id, 0, pattern(40'000, i))) return;
    }
    FAIL() << "it does not get full";
  }
};

TEST_F(CacheThreadsTest, SeveralObjectsAreFlushedAtTheSameTime) {
  flushers_ = 4;
  begin();
  std::map<std::string, Bytes> objects;
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 20; ++i) {
      const std::string name = std::to_string(i);
      if (round > 0) {
        ASSERT_TRUE(cache_->remove(id_of(name)));
      }
      put(name, objects[name] = pattern(static_cast<size_t>(1000 * (i + round)), i + round));
    }
    tier_.set({.fail_ppm = 100'000});
    std::thread other([&] { static_cast<void>(cache_->flush_all()); });
    static_cast<void>(cache_->flush_all());
    other.join();
    tier_.set({});
    const auto done = cache_->flush_all();
    ASSERT_TRUE(done.has_value()) << done.error().what;
    size_t there = 0;
    ASSERT_TRUE(tier_.list([&](const backend::Entry&) { return ++there > 0; }));
    EXPECT_EQ(there, objects.size());
  }
  static_cast<void>(cache_->evict_all());
  for (const auto& [name, bytes] : objects) EXPECT_EQ(get(name), bytes) << name;
}

TEST_F(CacheThreadsTest, ATierThatTakesNothingIsNotAskedForEachObject) {
  flushers_ = 4;
  begin();
  for (int i = 0; i < 100; ++i) put(std::to_string(i), pattern(100, i));
  tier_.set({.fail_ppm = 1'000'000});
  ASSERT_FALSE(cache_->flush_all());
  EXPECT_LT(tier_.failed_calls(), 20u);
  ASSERT_FALSE(cache_->flush_all());
  tier_.set({});
  ASSERT_TRUE(cache_->flush_all());
  for (int i = 0; i < 100; ++i) ASSERT_TRUE(cache_->remove(id_of(std::to_string(i))));
  const uint64_t before = tier_.failed_calls();
  tier_.set({.fail_ppm = 1'000'000});
  ASSERT_FALSE(cache_->flush_all());
  EXPECT_LT(tier_.failed_calls() - before, 20u);
  tier_.set({});
  ASSERT_TRUE(cache_->flush_all());
  size_t there = 0;
  ASSERT_TRUE(tier_.list([&](const backend::Entry&) { return ++there > 0; }));
  EXPECT_EQ(there, 0u);
}

// Else what a server knows would grow with each object that it ever had.
TEST_F(CacheThreadsTest, ObjectsThatAreGoneAreForgotten) {
  cache_->start();
  put("kept", pattern(20'000, 1));
  for (int i = 0; i < 3000; ++i) {
    const ObjectId id{2, ++last_id_};
    ASSERT_TRUE(cache_->run([&] { return store_->create_object(id); }));
    ASSERT_TRUE(cache_->run([&] { return store_->write(id, 0, pattern(100, 1)); }));
    ASSERT_TRUE(cache_->flush(id));
    ASSERT_TRUE(cache_->remove(id));
    if (i % 100 == 0) {
      ASSERT_TRUE(cache_->flush_all());
    }
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (cache_->segments() > 1000 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_LE(cache_->segments(), 1000u);
  ASSERT_TRUE(cache_->flush_all());
  EXPECT_GT(cache_->evict_all(), 0u) << "what is there is still known";
  EXPECT_EQ(get("kept"), pattern(20'000, 1));
}

TEST_F(CacheThreadsTest, ARenameMakesRoomForWhatItFetches) {
  put("a", pattern(400'000, 1));
  ASSERT_TRUE(cache_->flush_all());
  ASSERT_TRUE(cache_->evict(id_of("a")));
  // It is itself among those that are to be flushed.
  ASSERT_TRUE(cache_->run([&] { return store_->write(id_of("a"), 0, pattern(5000, 2)); }));
  fill_up();
  const auto renamed = cache_->rename(id_of("a"), "b");
  ASSERT_TRUE(renamed.has_value()) << renamed.error().what;
  Bytes expected = pattern(400'000, 1);
  std::ranges::copy(pattern(5000, 2), expected.begin());
  EXPECT_EQ(get("b"), expected);
}

TEST_F(CacheThreadsTest, WhatLeavesWhileItIsFetchedIsNotTheOldBytes) {
  put("a", pattern(200'000, 1));
  ASSERT_TRUE(cache_->flush_all());
  ASSERT_TRUE(cache_->evict(id_of("a")));
  // The old bytes were read; now others come, go behind, and leave.
  const Bytes news = pattern(200'000, 2);
  watched_.after_load = [&] {
    watched_.after_load = {};
    ASSERT_TRUE(store_->write(id_of("a"), 0, std::span(news).first(100 * store::kDataBytes / 4)));
    ASSERT_TRUE(cache_->flush(id_of("a")));
    ASSERT_GT(cache_->evict(id_of("a")).value(), 0u);
  };
  Bytes expected = pattern(200'000, 1);
  std::copy_n(news.begin(), 100 * store::kDataBytes / 4, expected.begin());
  EXPECT_EQ(get("a"), expected);
}

TEST_F(CacheThreadsTest, WhoNeedsRoomWaitsForTheFlushOfAnother) {
  fill_up();
  std::latch flushing(1);
  std::latch go_on(1);
  std::atomic<bool> first = true;
  watched_.before_state = [&] {
    if (!first.exchange(false)) return;
    flushing.count_down();
    go_on.wait();
  };
  std::thread flusher([&] { EXPECT_TRUE(cache_->flush_all()); });
  flushing.wait();
  std::atomic<bool> done = false;
  std::thread writer([&] {
    const ObjectId id{3, 1};
    EXPECT_TRUE(cache_->run([&] { return store_->create_object(id); }));
    const auto written = cache_->run([&] { return store_->write(id, 0, pattern(400'000, 3)); });
    EXPECT_TRUE(written.has_value()) << written.error().what;
    done = true;
  });
  // It waits; if it did not, it would have failed by then.
  for (int i = 0; i < 20 && !done; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  go_on.count_down();
  flusher.join();
  writer.join();
  EXPECT_TRUE(done);
}

TEST_F(CacheThreadsTest, WhatIsRemovedDuringAFlushStaysRemoved) {
  constexpr int kObjects = 300;
  const auto name = [](int i) { return "a" + std::to_string(i); };
  for (int i = 0; i < kObjects; ++i) put(name(i), pattern(10, 1));
  ASSERT_TRUE(cache_->flush_all());
  std::atomic<bool> stop = false;
  std::thread flusher([&] {
    while (!stop) EXPECT_TRUE(cache_->flush_all());
  });
  for (int i = 0; i < kObjects; ++i) EXPECT_TRUE(cache_->remove(id_of(name(i))));
  stop = true;
  flusher.join();
  ASSERT_TRUE(cache_->flush_all());
  for (int i = 0; i < kObjects; ++i) EXPECT_FALSE(behind_.state({name(i), {}})) << i;
}

TEST_F(CacheThreadsTest, AllThatIsBehindLeaves) {
  uint64_t chunks = 0;
  for (uint64_t i = 0; i < 20; ++i) {
    put("object " + std::to_string(i), pattern(10'000, i));
    chunks += 3;
  }
  ASSERT_TRUE(cache_->flush_all());
  EXPECT_EQ(cache_->evict_all(), chunks);
}

// The process ends after a rename was noted and before it was done, while it is not known which
// version is behind.
TEST_F(CacheThreadsTest, ARenameThatWasNotDoneRemovesNothingBehind) {
  put("a", pattern(200'000, 1));
  ASSERT_TRUE(cache_->flush_all());
  ASSERT_TRUE(cache_->evict(id_of("a")));
  ASSERT_TRUE(cache_->run([&] { return store_->write(id_of("a"), 0, pattern(5000, 2)); }));
  ASSERT_GT(cache_->evict(id_of("a")).value(), 0u);
  tier_.set({.lost_answer_ppm = 1'000'000});
  ASSERT_FALSE(cache_->flush(id_of("a")));
  tier_.set({});
  {
    Graves graves(*store_, store::kernel_random);
    ASSERT_TRUE(graves.add({"a", id_of("a")}, store_->behind(id_of("a"))->behind, id_of("a")));
  }
  crash();
  ASSERT_TRUE(cache_->flush_all());
  Bytes expected = pattern(200'000, 1);
  std::ranges::copy(pattern(5000, 2), expected.begin());
  EXPECT_EQ(get("a"), expected);
  begin();
  EXPECT_EQ(get("a"), expected);
}

}  // namespace
}  // namespace verbena::cache
