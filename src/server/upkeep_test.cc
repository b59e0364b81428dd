// SPDX-License-Identifier: Apache-2.0
#include "server/upkeep.h"

#include <atomic>
#include <chrono>
#include <vector>

#include <gtest/gtest.h>

#include "medium/testing.h"
#include "store/directory.h"

namespace verbena::server {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

TEST(CompactionPolicy, IsWorthwhileForAShareAndAnAmount) {
  const CompactionPolicy policy{.percent = 25, .least_bytes = 64 * kMiB};
  EXPECT_FALSE(policy.worthwhile({.blocks = 100, .spare = 0}, 8 * kMiB));
  EXPECT_TRUE(policy.worthwhile({.blocks = 100, .spare = 25}, 8 * kMiB));
  EXPECT_FALSE(policy.worthwhile({.blocks = 100, .spare = 24}, 8 * kMiB));
  EXPECT_TRUE(policy.worthwhile({.blocks = 10, .spare = 8}, 8 * kMiB));
  EXPECT_FALSE(policy.worthwhile({.blocks = 10, .spare = 7}, 8 * kMiB));
  EXPECT_FALSE(CompactionPolicy{.percent = 0}.worthwhile({.blocks = 100, .spare = 99}, 8 * kMiB));
}

class UpkeepTest : public ::testing::Test {
 protected:
  UpkeepTest() {
    store::DirectoryOptions options;
    options.chunks_per_block = 64;
    options.capacity_bytes = 256 * 64 * store::kChunkBytes;
    options.store.on_due = upkeep_.on_due();
    auto made = store::DirectoryStore::create({folder_.path() / "store"}, options);
    EXPECT_TRUE(made) << made.error().what;
    store_.emplace(std::move(*made));
  }
  ~UpkeepTest() override {
    upkeep_.stop();
    EXPECT_TRUE(store_->store().close());
  }
  // Whether something is so within a minute.
  template <typename Is>
  [[nodiscard]] static bool soon(Is is) {
    for (int i = 0; i < 6000 && !is(); ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return is();
  }
  void fill_and_empty() {
    const std::vector<uint8_t> bytes(500'000, 7);
    store::Store& store = store_->store();
    for (uint64_t i = 1; i <= 30; ++i) {
      ASSERT_TRUE(store.create_object({0, i}) && store.write({0, i}, 0, bytes));
    }
    for (uint64_t i = 1; i < 30; ++i) ASSERT_TRUE(store.remove({0, i}));
    ASSERT_TRUE(store.flush());
  }
  [[nodiscard]] Upkeep::Callbacks callbacks() {
    return {.failed = [](const store::Error& error) { ADD_FAILURE() << error.what; },
            .told =
                [this](const std::string& what) {
                  EXPECT_TRUE(what.starts_with("compacted: ")) << what;
                  ++told_;
                }};
  }

  const medium::TemporaryFolder folder_;
  Upkeep upkeep_;
  std::optional<store::DirectoryStore> store_;
  std::atomic<int> told_{0};
};

TEST_F(UpkeepTest, GivesFilesBackAndTells) {
  upkeep_.start(store_->store(), {.percent = 25, .least_bytes = 1, .every = kMillisecond},
                callbacks());
  ASSERT_NO_FATAL_FAILURE(fill_and_empty());
  EXPECT_TRUE(soon([&] { return upkeep_.numbers().compactions > 0 && told_ > 0; }));
  EXPECT_GT(upkeep_.numbers().moved_chunks, 0u);
  EXPECT_GT(upkeep_.numbers().returned_bytes, kMiB);
  std::vector<uint8_t> got(500'000);
  EXPECT_TRUE(store_->store().read({0, 30}, 0, got));
  EXPECT_EQ(got, std::vector<uint8_t>(500'000, 7));
}

TEST_F(UpkeepTest, LeavesThemWhereItIsTold) {
  ASSERT_NO_FATAL_FAILURE(fill_and_empty());
  const auto before = store_->store().spare_space();
  EXPECT_GT(before.spare, 0u);
  upkeep_.start(store_->store(), {.percent = 0, .least_bytes = 1, .every = kMillisecond},
                callbacks());
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  upkeep_.stop();
  EXPECT_EQ(store_->store().spare_space().blocks, before.blocks);
}

}  // namespace
}  // namespace verbena::server
