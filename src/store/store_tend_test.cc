// SPDX-License-Identifier: Apache-2.0
// A store whose program has a thread for flushes, checkpoints and growth.
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
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
INSTANTIATE_TEST_SUITE_P(Each, WaitingStore,
                         ::testing::Values(Durability::kFlush, Durability::kEach));

}  // namespace
}  // namespace verbena::store
