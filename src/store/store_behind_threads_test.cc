// SPDX-License-Identifier: Apache-2.0
// What is said of an object behind is of one moment, whatever other threads do with it.
#include <atomic>
#include <thread>

#include "store/store_behind_testing.h"

namespace verbena::store {
namespace {

class StoreBehindThreadsTest : public StoreBehindTest {};

// Whoever looks under its former name for what is under its new one may find another object there.
TEST_F(StoreBehindThreadsTest, TheNameIsThatOfTheVersion) {
  ASSERT_TRUE(store_->create_object(kOne, "0"));
  write(kOne, 0, pattern(100, 1));
  std::atomic<bool> stop = false;
  std::thread renamer([&] {
    for (uint64_t version = 1; !stop; ++version) {
      EXPECT_TRUE(store_->rename(kOne, std::to_string(version % 2)));
      const auto plan = store_->prepare_flush(kOne);
      const auto begun = store_->begin_flush(kOne, version);
      EXPECT_TRUE(begun && *begun == version);
      EXPECT_TRUE(store_->end_flush(*plan, version));
    }
  });
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(500);
  int wrong = 0;
  while (wrong == 0 && std::chrono::steady_clock::now() < end) {
    const auto fill = store_->prepare_fill(kOne, 0, 1);
    EXPECT_TRUE(fill.has_value());
    const auto& [behind, under] = fill->base();
    if (!under && behind.version != 0 && fill->name() != std::to_string(behind.version % 2)) {
      ++wrong;
    }
  }
  stop = true;
  renamer.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace verbena::store
