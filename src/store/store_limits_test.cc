// SPDX-License-Identifier: Apache-2.0
// What a store may not outgrow: room, objects, segments, and what opening has to do.
#include <gtest/gtest.h>

#include "store/store_testing.h"

namespace verbena::store {
namespace {

TEST_F(StoreTest, FullRefusesAndGoesOn) {
  ASSERT_TRUE(store_->create_object(kOne));
  ASSERT_TRUE(store_->create_object(kTwo));
  write(kTwo, 0, pattern(1000, 9));
  uint64_t at = 0;
  Result<void> last;
  while ((last = store_->write(kOne, at, pattern(100'000, at)))) at += 100'000;
  EXPECT_EQ(last.error().code, Code::kFull) << last.error().what;
  EXPECT_EQ(store_->stat(kOne)->size, at);
  EXPECT_EQ(read(kTwo, 0, 1000), pattern(1000, 9));
  ASSERT_TRUE(store_->truncate(kOne, 100'123));
  for (int i = 0; i < 20; ++i) write(kTwo, 0, pattern(200'000, 5));
  reopen();
  EXPECT_EQ(read(kTwo, 0, 200'000), pattern(200'000, 5));
}

// Clones make the index grow much faster than the log.
TEST_F(StoreTest, ThereIsRoomForEveryCheckpoint) {
  ASSERT_TRUE(store_->create_object(kOne));
  constexpr uint64_t kRuns = 200;
  for (const uint64_t first : {0, 1}) {
    for (uint64_t i = first; i < kRuns; i += 2) write(kOne, i * kDataBytes, pattern(kDataBytes, i));
  }
  uint64_t clones = 0;
  for (int round = 0; round < 3; ++round) {
    for (int i = 0; i < 30; ++i) {
      const auto cloned = store_->clone({.from = kOne, .to = {2, ++clones}});
      ASSERT_TRUE(cloned.has_value()) << cloned.error().what;
    }
    ASSERT_GE(store_->space().mappings, kRuns * clones);
    for (int i = 0; i < 3; ++i) {
      const auto done = store_->checkpoint();
      ASSERT_TRUE(done.has_value()) << done.error().what;
    }
    for (uint64_t i = 0; i < 3000; ++i) {
      write(kOne, i % kRuns * kDataBytes, pattern(10, i));
      ASSERT_FALSE(HasFatalFailure());
    }
  }
  reopen();
  EXPECT_EQ(store_->list({}, 1000)->size(), 1 + clones);
}

TEST_F(StoreTest, ObjectsAreBounded) {
  Options options;
  options.max_objects = 3;
  make(options);
  for (uint64_t i = 1; i <= 3; ++i) ASSERT_TRUE(store_->create_object({0, i}));
  EXPECT_EQ(store_->create_object({0, 4}).error().code, Code::kFull);
  ASSERT_TRUE(store_->remove({0, 2}));
  EXPECT_TRUE(store_->create_object({0, 4}));
}

TEST_F(StoreTest, ObjectsAreBoundedWhenOpened) {
  for (uint64_t i = 1; i <= 3; ++i) ASSERT_TRUE(store_->create_object({0, i}));
  ASSERT_TRUE(store_->close());
  store_.reset();
  Options options;
  options.max_objects = 2;
  EXPECT_EQ(Store::open(backend(), options).error().code, Code::kFull);
  options.max_objects = 3;
  EXPECT_TRUE(Store::open(backend(), options).has_value());
}

// While the log is replayed, what replaces an object is there twice.
TEST_F(StoreTest, AReplacementOfAllSegmentsIsOpenedAgain) {
  Options options;
  options.max_mappings = 10'000;
  make(options);
  ASSERT_TRUE(store_->create_object(kOne));
  ASSERT_TRUE(store_->create_object(kTwo));
  // Chunks that lie apart, shared so that they take no room.
  const Bytes chunk = pattern(kDataBytes, 1);
  write(kTwo, 0, chunk);
  for (uint64_t runs = 1; runs < 8192; runs *= 2) {
    ASSERT_TRUE(store_->clone({.from = kTwo,
                               .to = kTwo,
                               .length = (2 * runs - 1) * kDataBytes,
                               .to_offset = 2 * runs * kDataBytes,
                               .allow_existing = true}));
  }
  ASSERT_EQ(store_->stat(kTwo)->segments, 8192u);
  ASSERT_TRUE(store_->replace(kOne, kTwo));
  ASSERT_TRUE(store_->close());
  store_.reset();
  const auto again = Store::open(backend(), options);
  ASSERT_TRUE(again.has_value()) << again.error().what;
  EXPECT_EQ((*again)->stat(kOne)->segments, 8192u);
}

// What opening has to verify is bounded, whatever wrote it.
TEST_F(StoreTest, CopiesOfClonesAreFlushedInTime) {
  Options options;
  options.flush_bytes = 50 * kDataBytes;
  make(options);
  ASSERT_TRUE(store_->create_object(kOne));
  write(kOne, 0, pattern(10 * kDataBytes, 1));
  for (uint64_t i = 0; i < 30; ++i) {
    ASSERT_TRUE(store_->clone({.from = kOne, .to = kTwo, .to_offset = 1, .allow_existing = true}));
  }
  // The store is left as a process that was killed would leave it.
  OpenReport report;
  Options reading;
  reading.read_only = true;
  ASSERT_TRUE(Store::open(backend(), reading, &report).has_value());
  EXPECT_LE(report.verified_chunks, 110u);
}

}  // namespace
}  // namespace verbena::store
