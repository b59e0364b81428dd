// SPDX-License-Identifier: Apache-2.0
// A store whose program has a thread for flushes, checkpoints and growth.
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "store/crc_parts.h"
#include "store/memory_medium.h"
#include "store/store.h"

namespace verbena::store {
namespace {

constexpr uint32_t kPerBlock = 64;
constexpr uint64_t kFlushBytes = 100 * kDataBytes;

class TendedStore : public ::testing::Test {
 protected:
  TendedStore() {
    options_.flush_bytes = kFlushBytes;
    options_.on_due = [this] { ++due_; };
    auto made = Store::create(medium_.open(), options_);
    EXPECT_TRUE(made);
    store_ = std::move(*made);
    EXPECT_TRUE(store_->create_object(kObject));
  }
  void write(uint64_t chunks) {
    const std::vector<uint8_t> bytes(chunks * kDataBytes, 7);
    EXPECT_TRUE(store_->write(kObject, 0, bytes));
  }

  // Chunks with a hole behind each: so many runs.
  void write_apart(uint64_t chunks) {
    const std::vector<uint8_t> bytes(kDataBytes, 7);
    for (uint64_t i = 0; i < chunks; ++i) {
      EXPECT_TRUE(store_->write(kObject, 2 * i * kDataBytes, bytes));
    }
  }
  // All that there is room for.
  void fill() {
    uint64_t offset = uint64_t{1} << 30;
    for (uint64_t chunks = 4 * kPerBlock; chunks > 0; chunks /= 2) {
      const std::vector<uint8_t> bytes(chunks * kDataBytes, 8);
      while (store_->write(kObject, offset, bytes)) offset += bytes.size();
    }
  }

  static constexpr ObjectId kObject{1, 1};
  MemoryMedium medium_{kPerBlock, 64};
  Options options_;
  std::atomic<int> due_{0};
  std::unique_ptr<Store> store_;
};

TEST_F(TendedStore, IsToldWhatIsDueAndDoesNotWait) {
  EXPECT_TRUE(store_->tend());
  due_ = 0;
  write(99);
  EXPECT_TRUE(store_->tend());  // it may have grown
  due_ = 0;
  write(1);
  EXPECT_EQ(due_, 1);
  EXPECT_FALSE(store_->would_wait());
  EXPECT_TRUE(store_->tend());
  due_ = 0;
  write(1);
  EXPECT_EQ(due_, 0);
}

TEST_F(TendedStore, WaitsWhereNobodyKeepsUp) {
  write(3 * 100);
  EXPECT_FALSE(store_->would_wait());
  // Who goes beyond flushes, and all is well again.
  write(100);
  EXPECT_FALSE(store_->would_wait());
}

TEST_F(TendedStore, GrowsBeforeSpaceIsNeeded) {
  EXPECT_TRUE(store_->tend());
  const uint32_t before = medium_.existing;
  write(kPerBlock + kPerBlock / 2);
  EXPECT_GT(due_, 0);
  const uint32_t needed = medium_.existing;
  EXPECT_GT(needed, before);
  EXPECT_TRUE(store_->tend());
  EXPECT_EQ(medium_.existing, needed + 1);
  EXPECT_TRUE(store_->tend());
  EXPECT_EQ(medium_.existing, needed + 1);
}

// A write says what its bytes are: others have no effect.
TEST_F(TendedStore, RefusesBytesThatWereNotSent) {
  for (const size_t size : {1UL, 500UL, 4048UL, 10'000UL}) {
    for (const uint64_t offset : {0UL, 5UL, 4047UL}) {
      std::vector<uint8_t> bytes(size, 3);
      const ObjectId object{2, size * 10'000 + offset};
      ASSERT_TRUE(store_->create_object(object));
      ASSERT_TRUE(store_->write(object, offset, bytes, 0, crc_of(bytes)));
      const uint32_t crc = crc_of(bytes);
      bytes[size / 2] ^= 1;
      const auto refused = store_->write(object, offset, bytes, 0, crc);
      ASSERT_FALSE(refused);
      EXPECT_EQ(refused.error().code, Code::kDamaged);
      EXPECT_EQ(refused.error().damage.field, "message CRC");
      std::vector<uint8_t> back(offset + size);
      ASSERT_TRUE(store_->read(object, 0, back));
      EXPECT_EQ(back[offset + size / 2], 3);
    }
  }
  EXPECT_FALSE(store_->write(kObject, 0, {}, 0, 1));
  EXPECT_TRUE(store_->write(kObject, 0, {}, 0, crc_of({})));
}

// Whoever changes something while a checkpoint is written waits for a flush at most.
class WaitingStore : public TendedStore, public ::testing::WithParamInterface<Durability> {
 protected:
  WaitingStore() {
    EXPECT_TRUE(store_->close());
    store_.reset();
    options_.durability = GetParam();
    options_.while_folding = [this] {
      if (auto beside = std::exchange(beside_, {})) beside();
    };
    auto opened = Store::open(medium_.open(), options_);
    EXPECT_TRUE(opened);
    store_ = std::move(*opened);
  }
  std::function<void()> beside_;
};

TEST_P(WaitingStore, NobodyWaitsForACheckpoint) {
  std::future<void> others;
  bool waited = false;
  beside_ = [&] {
    // As much as they may leave unflushed, and more.
    others = std::async(std::launch::async, [&] { write(5 * 100); });
    waited = others.wait_for(std::chrono::seconds(20)) != std::future_status::ready;
  };
  // Until one is due.
  for (int i = 0; beside_ && i < 2000; ++i) {
    ASSERT_TRUE(store_->rename(kObject, std::string(990, 'n') + std::to_string(i)));
    if (due_.exchange(0) == 0) continue;
    ASSERT_TRUE(store_->tend());
  }
  ASSERT_TRUE(others.valid());
  others.get();
  EXPECT_FALSE(waited);
}
// However many objects change beside a checkpoint, the next one has room for its table: data does
// not get what is kept for it.
TEST_P(WaitingStore, WhatChangesBesideACheckpointLeavesRoomForTheNext) {
  uint64_t objects = 0;
  beside_ = [&] {  // or as many as the log has room for, where each is flushed
    while (objects < 3000 && store_->create_object({2, objects})) ++objects;
  };
  write(1);
  ASSERT_TRUE(store_->checkpoint());
  fill();
  EXPECT_TRUE(store_->checkpoint());
  EXPECT_GT(objects, 1000u);
  for (uint64_t i = 0; i < objects; ++i) ASSERT_TRUE(store_->remove({2, i})) << i;
  ASSERT_TRUE(store_->remove(kObject));
  EXPECT_TRUE(store_->checkpoint());
}

// A clone's record is short, and what it adds to the table is long.
TEST_P(WaitingStore, ClonesAtOnceLeaveRoomForAllOfThem) {
  constexpr uint64_t kThreads = 8;
  write_apart(700);
  ASSERT_TRUE(store_->checkpoint());
  std::atomic<uint64_t> ready{0};
  std::vector<std::future<bool>> clones;
  for (uint64_t i = 0; i < kThreads; ++i) {
    clones.push_back(std::async(std::launch::async, [&, i] {
      ++ready;
      while (ready < kThreads) {}
      return store_->clone({.from = kObject, .to = {3, i}}).has_value();
    }));
  }
  for (auto& clone : clones) EXPECT_TRUE(clone.get());
  fill();
  EXPECT_TRUE(store_->checkpoint());
  for (uint64_t i = 0; i < kThreads; ++i) ASSERT_TRUE(store_->remove({3, i}));
  EXPECT_TRUE(store_->checkpoint());
}

// An index of which old and new do not fit beside each other: what is kept free for what changed is
// room enough to remove.
TEST_P(WaitingStore, AFullStoreCanBeEmptied) {
  constexpr uint64_t kThreads = 3;
  write_apart(300);
  std::atomic<bool> stop{false};
  auto tending = std::async(std::launch::async, [&] {
    while (!stop) {
      EXPECT_TRUE(due_.exchange(0) == 0 || store_->tend());
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  });
  const auto at_once = [&](const std::function<void(uint64_t)>& work) {
    std::vector<std::future<void>> threads;
    for (uint64_t i = 0; i < kThreads; ++i) threads.push_back(std::async(work, i));
    for (auto& thread : threads) thread.get();
  };
  std::array<uint64_t, kThreads> made{};
  at_once([&](uint64_t mine) {
    while (store_->clone({.from = kObject, .to = {10 + mine, made[mine]}})) ++made[mine];
  });
  // What is refused changes nothing, however often.
  at_once([&](uint64_t mine) {
    for (uint64_t i = 0; i < 100; ++i) {
      static_cast<void>(store_->clone({.from = kObject, .to = {20 + mine, i}}));
      const ObjectId old{10 + mine, i % std::max<uint64_t>(made[mine], 1)};
      static_cast<void>(store_->clone({.from = kObject, .to = old, .allow_existing = true}));
      static_cast<void>(store_->rename(old, "name " + std::to_string(mine * 1000 + i)));
    }
  });
  at_once([&](uint64_t mine) {
    for (uint64_t i = 0; i < 100; ++i) static_cast<void>(store_->remove({20 + mine, i}));
    for (uint64_t i = 0; i < made[mine]; ++i) {
      const auto done = store_->remove({10 + mine, i});
      EXPECT_TRUE(done) << mine << ' ' << i << ": " << done.error().what;
    }
  });
  stop = true;
  tending.get();
  write(1);
  EXPECT_TRUE(store_->checkpoint());
}

INSTANTIATE_TEST_SUITE_P(Each, WaitingStore,
                         ::testing::Values(Durability::kFlush, Durability::kEach));

}  // namespace
}  // namespace verbena::store
