// SPDX-License-Identifier: Apache-2.0
// What is fetched by other threads before it is wanted.
#include <atomic>
#include <chrono>
#include <thread>

#include "cache/cache_testing.h"

namespace verbena::cache {
namespace {

class ReadAheadTest : public CacheTest {
 protected:
  static constexpr size_t kSegmentBytes = kSegmentParts * store::kDataBytes;
  static constexpr std::chrono::seconds kLong{20};

  void put_behind(const std::string& name, const Bytes& bytes) {
    put(name, bytes);
    ASSERT_TRUE(cache_->flush_all());
    static_cast<void>(cache_->evict_all());
  }
  Result<size_t> read(ObjectId id, uint64_t offset, size_t length) {
    Bytes bytes(length);
    auto done = cache_->run([&] { return store_->read(id, offset, bytes); });
    if (done) cache_->used(id, offset, length);
    return done;
  }
  // Bounded; what the caller expects afterwards tells whether it came.
  static void wait_for(const std::function<bool()>& what) {
    const auto end = std::chrono::steady_clock::now() + kLong;
    while (!what() && std::chrono::steady_clock::now() < end) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  }
  void fill_up() {
    wait_for([&] {
      const ObjectId fresh{2, ++last_id_};
      return !store_->create_object(fresh) || !store_->write(fresh, 0, pattern(40'000, last_id_));
    });
  }
  void wait_for_loads(uint64_t count) {
    wait_for([&] { return cache_->counter(Counter::kLoads) >= count; });
    EXPECT_EQ(cache_->counter(Counter::kLoads), count);
  }
};

TEST_F(ReadAheadTest, WhatComesNextIsThereBeforeItIsWanted) {
  const Bytes bytes = pattern(3 * kSegmentBytes, 1);
  put_behind("a", bytes);
  cache_->start();
  const ObjectId id = id_of("a");
  ASSERT_TRUE(read(id, 0, 1000));
  wait_for_loads(2);
  // The second segment is here, and its use fetches the third.
  Bytes second(1000);
  ASSERT_TRUE(store_->read(id, kSegmentBytes, second));
  EXPECT_TRUE(std::ranges::equal(second, std::span(bytes).subspan(kSegmentBytes, 1000)));
  cache_->used(id, kSegmentBytes, 1000);
  wait_for_loads(3);
  EXPECT_EQ(get("a"), bytes);
  EXPECT_EQ(cache_->counter(Counter::kLoads), 3u);
}

TEST_F(ReadAheadTest, ReadsInNoOrderFetchNothingElse) {
  put_behind("a", pattern(4 * kSegmentBytes, 1));
  cache_->start();
  const ObjectId id = id_of("a");
  for (const uint64_t segment : {3, 1}) ASSERT_TRUE(read(id, segment * kSegmentBytes, 1000));
  cache_->stop();
  EXPECT_EQ(cache_->counter(Counter::kLoads), 2u);
}

// Who wants what was not fetched is told why.
TEST_F(ReadAheadTest, AnErrorIsForWhoWantsIt) {
  const Bytes bytes = pattern(3 * kSegmentBytes, 1);
  put_behind("a", bytes);
  cache_->start();
  const ObjectId id = id_of("a");
  ASSERT_TRUE(read(id, 0, 1000));
  wait_for_loads(2);
  tier_.set({.fail_ppm = 1'000'000});
  ASSERT_TRUE(read(id, kSegmentBytes, 1000));
  wait_for([&] { return tier_.failed_calls() > 0; });
  EXPECT_GT(tier_.failed_calls(), 0u);
  const auto refused = read(id, 2 * kSegmentBytes, 1000);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Code::kIo);
  tier_.set({});
  EXPECT_EQ(get("a"), bytes);
}

TEST_F(ReadAheadTest, ObjectsGoWhileTheyAreFetched) {
  tier_.set({.delay_ppm = 500'000, .delay_us = 500});
  for (int round = 0; round < 20; ++round) {
    put_behind("a", pattern(3 * kSegmentBytes, round));
    if (round == 0) cache_->start();
    const ObjectId id = id_of("a");
    ASSERT_TRUE(read(id, 0, 1000));
    ASSERT_TRUE(cache_->remove(id));
  }
  cache_->stop();
  ASSERT_TRUE(cache_->flush_all());
  size_t there = 0;
  ASSERT_TRUE(tier_.list([&](const backend::Entry&) { return ++there > 0; }));
  EXPECT_EQ(there, 0u);
}

// A guess is not worth a write behind.
TEST_F(ReadAheadTest, WhatIsOnlyHereIsNotFlushedForIt) {
  flush_after_ = 0;
  begin();
  put_behind("a", pattern(4 * kSegmentBytes, 1));
  cache_->start();
  const ObjectId id = id_of("a");
  ASSERT_TRUE(read(id, 0, 1000));
  wait_for_loads(2);
  fill_up();
  const uint64_t flushes = cache_->counter(Counter::kFlushes);
  cache_->used(id, kSegmentBytes, 1000);
  std::this_thread::sleep_for(std::chrono::milliseconds(200));
  cache_->stop();
  EXPECT_EQ(cache_->counter(Counter::kFlushes), flushes);
}

// But what is in both leaves.
TEST_F(ReadAheadTest, WhatIsInBothMakesRoomForIt) {
  const Bytes bytes = pattern(4 * kSegmentBytes, 1);
  put_behind("a", bytes);
  cache_->start();
  const ObjectId id = id_of("a");
  ASSERT_TRUE(read(id, 0, 1000));
  wait_for_loads(2);
  fill_up();
  ASSERT_TRUE(cache_->flush_all());
  cache_->used(id, kSegmentBytes, 1000);
  wait_for([&] { return cache_->counter(Counter::kAheadLoads) == 2; });
  EXPECT_EQ(cache_->counter(Counter::kAheadLoads), 2u);
  EXPECT_EQ(get("a"), bytes);
}

TEST_F(ReadAheadTest, AfterTheEndThereIsNothingToLoad) {
  put_behind("a", pattern(2 * kSegmentBytes, 1));
  cache_->start();
  const ObjectId id = id_of("a");
  ASSERT_TRUE(read(id, 0, 1000));
  wait_for_loads(2);
  for (uint64_t segment = 1; segment < 8; ++segment) {
    cache_->used(id, segment * kSegmentBytes, 1000);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  cache_->stop();
  EXPECT_EQ(cache_->counter(Counter::kAheadLoads), 1u);
}

// Of each of them there is nothing that could follow.
TEST_F(ReadAheadTest, SmallObjectsDoNotEndAStream) {
  const Bytes bytes = pattern(4 * kSegmentBytes, 1);
  for (int i = 0; i < 100; ++i) put_behind("small" + std::to_string(i), pattern(5000, i));
  put_behind("a", bytes);
  cache_->start();
  const ObjectId id = id_of("a");
  ASSERT_TRUE(read(id, 0, 1000));
  wait_for([&] { return cache_->counter(Counter::kAheadLoads) == 1; });
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(get("small" + std::to_string(i)), pattern(5000, i));
  }
  ASSERT_TRUE(read(id, kSegmentBytes, 1000));
  wait_for([&] { return cache_->counter(Counter::kAheadLoads) == 2; });
  EXPECT_EQ(cache_->counter(Counter::kAheadLoads), 2u);
}

// More than there is room for, with a tier that fails now and then and others that evict.
TEST_F(ReadAheadTest, SeveralReadInOrder) {
  constexpr int kReaders = 4;
  std::vector<Bytes> objects;
  for (int i = 0; i < kReaders; ++i) {
    objects.push_back(pattern(6 * kSegmentBytes + 1000, i));
    put_behind(std::to_string(i), objects.back());
  }
  cache_->start();
  tier_.set({.fail_ppm = 10'000, .delay_ppm = 100'000, .delay_us = 300});
  std::atomic<bool> ended = false;
  std::atomic<int> wrong = 0;
  std::vector<std::thread> readers;
  for (int i = 0; i < kReaders; ++i) {
    readers.emplace_back([&, i] {
      const ObjectId id = id_of(std::to_string(i));
      Bytes piece(kPiece);
      for (int round = 0; round < 3; ++round) {
        for (size_t at = 0; at < objects[i].size(); at += kPiece) {
          const auto wanted = std::span(objects[i]).subspan(at);
          const auto done = cache_->run([&] { return store_->read(id, at, piece); });
          if (!done) continue;  // the tier has failed
          cache_->used(id, at, piece.size());
          const auto got = std::span(piece).first(std::min(piece.size(), wanted.size()));
          if (!std::ranges::equal(got, wanted.first(got.size()))) ++wrong;
        }
      }
    });
  }
  std::thread evicter([&] {
    while (!ended) {
      static_cast<void>(cache_->evict_all());
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
  });
  for (std::thread& reader : readers) reader.join();
  ended = true;
  evicter.join();
  EXPECT_EQ(wrong, 0);
  tier_.set({});
  for (int i = 0; i < kReaders; ++i) EXPECT_EQ(get(std::to_string(i)), objects[i]);
}

}  // namespace
}  // namespace verbena::cache
