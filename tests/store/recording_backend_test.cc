// SPDX-License-Identifier: Apache-2.0
// Whether the recording medium knows what a power cut may leave: the crash test is as good as that.
#include "recording_backend.h"

#include <cstring>
#include <functional>
#include <set>

#include <gtest/gtest.h>

namespace verbena::store::trial {
namespace {

constexpr MediumShape kShape{.chunks_per_block = 16, .blocks = 2};

class RecordingTest : public ::testing::Test {
 protected:
  RecordingTest() : medium_(kShape, 1), backend_(medium_.open_backend()) {
    memory_ = backend_->allocate()->memory;
    std::memset(memory_, 0, 4096);
    backend_->flush(memory_, 4096);
    EXPECT_TRUE(backend_->fence().has_value());
    medium_.mark(0, 0);
  }

  // All pairs of what byte 0 and byte 64 may be at the last moment.
  std::set<std::pair<int, int>> possible() {
    medium_.mark(0, 0);
    Walk walk(medium_.recording());
    while (walk.next()) continue;
    std::set<std::pair<int, int>> pairs;
    std::vector<uint32_t> choice(walk.dirty().size());
    const std::function<void(size_t)> all = [&](size_t at) {
      if (at == choice.size()) {
        const Image image = walk.image(choice);
        pairs.emplace(image.bytes[0], image.bytes[64]);
        return;
      }
      for (choice[at] = 0; choice[at] <= walk.dirty()[at].versions.size(); ++choice[at])
        all(at + 1);
    };
    all(0);
    return pairs;
  }

  RecordingMedium medium_;
  std::unique_ptr<medium::Backend> backend_;
  uint8_t* memory_ = nullptr;
};

using Pairs = std::set<std::pair<int, int>>;

TEST_F(RecordingTest, WhatWasNotFlushedMayBeThereOrNot) {
  memory_[0] = 1;
  memory_[64] = 2;
  EXPECT_EQ(possible(), (Pairs{{0, 0}, {1, 0}, {0, 2}, {1, 2}}));
}

TEST_F(RecordingTest, WithoutTheFenceAFlushPromisesNothing) {
  memory_[0] = 1;
  backend_->flush(memory_, 64);
  EXPECT_EQ(possible(), (Pairs{{0, 0}, {1, 0}}));
}

TEST_F(RecordingTest, AFenceWithoutTheFlushPromisesNothing) {
  memory_[0] = 1;
  memory_[64] = 2;
  backend_->flush(memory_, 64);
  EXPECT_TRUE(backend_->fence().has_value());
  EXPECT_EQ(possible(), (Pairs{{1, 0}, {1, 2}}));
}

TEST_F(RecordingTest, AStoreBehindTheFlushIsNotPartOfIt) {
  memory_[0] = 1;
  backend_->flush(memory_, 64);
  memory_[0] = 3;
  EXPECT_TRUE(backend_->fence().has_value());
  memory_[0] = 5;
  EXPECT_EQ(possible(), (Pairs{{1, 0}, {3, 0}, {5, 0}}));
}

TEST_F(RecordingTest, AKilledProcessLeavesMemoryAndNotTheMedium) {
  memory_[0] = 1;
  medium_.kill();
  memory_[0] = 2;  // after its death
  backend_->flush(memory_, 64);
  EXPECT_TRUE(backend_->fence().has_value());
  backend_ = medium_.open_backend();
  memory_ = backend_->claim(0)->memory;
  EXPECT_EQ(memory_[0], 1);
  EXPECT_EQ(possible(), (Pairs{{0, 0}, {1, 0}}));
}

TEST_F(RecordingTest, AFenceOfTheNextProcessIsNotForTheFlushesOfTheLast) {
  memory_[0] = 1;
  backend_->flush(memory_, 64);
  medium_.kill();
  backend_ = medium_.open_backend();
  EXPECT_TRUE(backend_->fence().has_value());
  EXPECT_EQ(possible(), (Pairs{{0, 0}, {1, 0}}));
}

TEST_F(RecordingTest, AKillInTheMidstOfStoresLeavesSomeOfThem) {
  medium_.kill_at(2, 1);
  memory_[0] = 1;
  backend_->flush(memory_, 64);
  EXPECT_FALSE(medium_.killed());
  for (size_t line = 1; line < 64; ++line) memory_[line * 64] = 1;
  EXPECT_TRUE(backend_->fence().has_value());
  EXPECT_TRUE(medium_.killed());
  backend_ = medium_.open_backend();
  memory_ = backend_->claim(0)->memory;
  int stored = 0;
  for (size_t line = 1; line < 64; ++line) stored += memory_[line * 64];
  EXPECT_EQ(memory_[0], 1);
  EXPECT_GT(stored, 0);
  EXPECT_LT(stored, 63);
}

TEST_F(RecordingTest, MomentsAreThoseRightBeforeSomethingChanges) {
  medium_.mark(7, 0);
  memory_[0] = 1;
  backend_->flush(memory_, 64);
  medium_.mark(8, 0);
  EXPECT_TRUE(backend_->fence().has_value());
  medium_.mark(9, 0);
  Walk walk(medium_.recording());
  std::vector<std::pair<uint32_t, size_t>> moments;  // mark, dirty lines
  while (walk.next()) {
    if (walk.mark().first >= 7) moments.emplace_back(walk.mark().first, walk.dirty().size());
  }
  EXPECT_EQ(moments, (std::vector<std::pair<uint32_t, size_t>>{{7, 0}, {8, 1}, {9, 0}}));
}

}  // namespace
}  // namespace verbena::store::trial
