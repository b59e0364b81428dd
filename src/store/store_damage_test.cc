// SPDX-License-Identifier: Apache-2.0
// A medium that is spoilt or cannot be read, one case at a time. Ten thousand:
// tests/store/corruption.
#include <gtest/gtest.h>

#include "medium/faulty_backend.h"
#include "medium/staged_backend.h"
#include "store/store_testing.h"

namespace verbena::store {
namespace {

TEST_F(StoreTest, ScrubFindsWhatIsSpoilt) {
  ASSERT_TRUE(store_->create_object(kOne));
  write(kOne, 0, pattern(100'000, 1));
  auto report = store_->scrub();
  ASSERT_TRUE(report.has_value()) << report.error().what;
  EXPECT_EQ(report->damaged, 0u);
  EXPECT_EQ(report->chunks, 25u);
  EXPECT_GT(report->log_chunks, 3u);
  const auto segment = store_->segments(kOne, 0, 1)->front();
  ASSERT_TRUE(store_->close());
  store_.reset();
  {
    auto raw = backend();
    auto block = raw->claim(static_cast<uint32_t>(segment.chunk / kPerBlock));
    ASSERT_TRUE(block.has_value());
    uint8_t* const at = block->memory + segment.chunk % kPerBlock * kChunkBytes + 3 * kChunkBytes;
    at[100] ^= 1;
    raw->flush(at, kChunkBytes);
    ASSERT_TRUE(raw->fence());
  }
  auto made = Store::open(backend(), {});
  ASSERT_TRUE(made.has_value()) << made.error().what;
  store_ = std::move(*made);
  report = store_->scrub();
  ASSERT_TRUE(report.has_value());
  ASSERT_EQ(report->damaged, 1u);
  EXPECT_EQ(report->damage[0].object, kOne);
  EXPECT_EQ(report->damage[0].offset, 3 * kDataBytes);
  EXPECT_EQ(report->damage[0].field, "data CRC");
  Bytes bytes(100'000);
  const auto bad = store_->read(kOne, 0, bytes);
  ASSERT_FALSE(bad.has_value());
  EXPECT_EQ(bad.error().code, Code::kDamaged);
  EXPECT_EQ(bad.error().damage.offset, 3 * kDataBytes);
  EXPECT_EQ(read(kOne, 0, 3 * kDataBytes).size(), 3 * kDataBytes);
  // Part of it cannot be written over, all of it can.
  EXPECT_EQ(store_->write(kOne, 3 * kDataBytes, Bytes(10)).error().code, Code::kDamaged);
  write(kOne, 3 * kDataBytes, Bytes(kDataBytes));
  EXPECT_EQ(read(kOne, 0, 100'000).size(), 100'000u);
}

TEST_F(StoreTest, ScrubGoesOnWhereTheMediumCannotBeRead) {
  ASSERT_TRUE(store_->create_object(kOne));
  write(kOne, 0, pattern(100'000, 1));
  ASSERT_TRUE(store_->close());
  store_.reset();
  medium::Faults faults;
  auto made = Store::open(std::make_unique<medium::FaultyBackend>(backend(), faults), {});
  ASSERT_TRUE(made.has_value()) << made.error().what;
  // Once is no damage: it is read again, chunk by chunk.
  faults.read.arm(1);
  auto report = (*made)->scrub();
  ASSERT_TRUE(report.has_value()) << report.error().what;
  EXPECT_EQ(report->damaged, 0u);
  faults.read.arm(1, true);
  report = (*made)->scrub();
  ASSERT_TRUE(report.has_value()) << report.error().what;
  EXPECT_EQ(report->chunks, 25u);
  EXPECT_EQ(report->damaged, report->chunks + report->log_chunks);
}

// Superblocks, checkpoint and log are there twice, in blocks 0 and 1.
TEST_F(StoreTest, OneCopyOfTheLogIsEnoughToRead) {
  ASSERT_TRUE(store_->create_object(kOne));
  write(kOne, 0, pattern(100'000, 1));
  ASSERT_TRUE(store_->close());
  store_.reset();
  for (const uint32_t block : {0u, 1u}) {
    medium::Faults faults;
    faults.unreadable_block = block;
    medium::StagedOptions staged;
    staged.files.folder = folder_;
    staged.files.block_bytes = kPerBlock * kChunkBytes;
    const auto open = [&](bool read_only, OpenReport* report) {
      staged.files.read_only = read_only;
      auto files = medium::open_staged_backend(staged);
      EXPECT_TRUE(files.has_value()) << files.error().what;
      return Store::open(std::make_unique<medium::FaultyBackend>(*std::move(files), faults),
                         {.read_only = read_only}, report);
    };
    OpenReport report;
    auto made = open(true, &report);
    ASSERT_TRUE(made.has_value()) << made.error().what;
    store_ = std::move(*made);
    EXPECT_EQ(read(kOne, 0, 100'000), pattern(100'000, 1));
    EXPECT_FALSE(report.damage.empty());
    store_.reset();
    made = open(false, &report);
    ASSERT_FALSE(made.has_value());
    EXPECT_EQ(made.error().code, Code::kIo);
  }
}

}  // namespace
}  // namespace verbena::store
