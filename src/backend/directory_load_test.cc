// SPDX-License-Identifier: Apache-2.0
// What the disk is told about loads.
#include <algorithm>

#include "backend/directory_testing.h"
#include "backend/faulty_files.h"

namespace verbena::backend {
namespace {

class DirectoryLoadTest : public ::testing::Test {
 protected:
  static constexpr uint64_t kParts = 16'000;
  static constexpr size_t kAtOnce = 320;  // as a read of 1 MiB needs

  void SetUp() override {
    files_.syncs = false;
    tier_ = open_tier(folder_.path(), files_);
    ASSERT_NE(tier_, nullptr);
    // All of it holes.
    auto update = tier_->update(
        kKey, {.base = std::nullopt,
               .state = {.version = 1, .size = kParts * kPartBytes, .modified_ns = 1}});
    ASSERT_TRUE(update.has_value());
    ASSERT_TRUE((*update)->hole(0, kParts));
    ASSERT_TRUE((*update)->commit());
    files_.at_begin_read = [this](uint64_t offset, uint64_t bytes) {
      told_until_ = std::max(told_until_, (offset + bytes) / kPartBytes);
    };
  }
  // How far after its end the disk is told to read.
  uint64_t load(uint64_t first, size_t count) {
    told_until_ = 0;
    Bytes bytes(count * kPartBytes);
    std::vector<PartToLoad> parts;
    for (size_t i = 0; i < count; ++i) parts.push_back({bytes.data() + i * kPartBytes, 0});
    EXPECT_TRUE(tier_->load(kKey, 1, first, parts));
    return told_until_ - std::min(told_until_, first + count);
  }

  const Key kKey{"a", {}};
  TemporaryFolder folder_;
  FaultyFiles files_;
  std::unique_ptr<DirectoryTier> tier_;
  uint64_t told_until_ = 0;
};

TEST_F(DirectoryLoadTest, WhatFollowsIsReadForOneWhoReadsInOrder) {
  EXPECT_EQ(load(0, kAtOnce), kAtOnce);
  EXPECT_EQ(load(kAtOnce, 2 * kAtOnce), 2 * kAtOnce);
  EXPECT_EQ(load(kParts - kAtOnce, kAtOnce), 0u);
}

// Otherwise each of them would read twice as much as it needs.
TEST_F(DirectoryLoadTest, WhatFollowsIsNotReadForOneWhoDoesNot) {
  SeededRandom random(1);
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(load(1 + random.below(kParts - kAtOnce), kAtOnce), 0u);
  }
}

TEST_F(DirectoryLoadTest, OneWhoReadsInOrderBesideOthersWhoDoNot) {
  SeededRandom random(1);
  uint64_t at = 5;
  static_cast<void>(load(at, kAtOnce));
  for (int i = 0; i < 20; ++i) {
    for (int other = 0; other < 10; ++other) {
      static_cast<void>(load(random.below(kParts - kAtOnce), kAtOnce));
    }
    at += kAtOnce;
    EXPECT_EQ(load(at, kAtOnce), kAtOnce);
  }
}

}  // namespace
}  // namespace verbena::backend
