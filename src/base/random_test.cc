// SPDX-License-Identifier: Apache-2.0
#include "base/random.h"

#include <cstddef>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace verbena {
namespace {

std::vector<uint64_t> draw(RandomSource& random, int n) {
  std::vector<uint64_t> values(static_cast<size_t>(n));
  for (uint64_t& value : values) value = random.next();
  return values;
}

TEST(RandomTest, OneSeedIsOneHistory) {
  SeededRandom first(42);
  SeededRandom again(42);
  SeededRandom other(43);
  const auto history = draw(first, 100);
  EXPECT_EQ(draw(again, 100), history);
  EXPECT_NE(draw(other, 100), history);
}

TEST(RandomTest, BelowStaysBelowAndReachesEverything) {
  SeededRandom random(1);
  for (const uint64_t bound : {uint64_t{1}, uint64_t{2}, uint64_t{7}, uint64_t{100}}) {
    std::vector<int> counts(bound);
    const int each = 2000;
    for (uint64_t i = 0; i < each * bound; ++i) {
      const uint64_t value = random.below(bound);
      ASSERT_LT(value, bound);
      ++counts[value];
    }
    for (const int count : counts) EXPECT_NEAR(count, each, 300);
  }
}

// Gives what it is told to, so that the rejected part of the range can be aimed at.
class Scripted final : public RandomSource {
 public:
  explicit Scripted(std::vector<uint64_t> values) : values_(std::move(values)) {}
  [[nodiscard]] uint64_t next() override { return values_.at(used_++); }
  [[nodiscard]] size_t used() const { return used_; }

 private:
  std::vector<uint64_t> values_;
  size_t used_ = 0;
};

TEST(RandomTest, BelowRejectsWhatWouldBeBiased) {
  // 2^64 mod 3 is 1: of 2^64 draws exactly one, 0, is too many for thirds.
  Scripted random({0, uint64_t{1} << 63});
  EXPECT_EQ(random.below(3), 1u);
  EXPECT_EQ(random.used(), 2u);
  Scripted power({0});
  EXPECT_EQ(power.below(4), 0u);  // quarters divide it: nothing is rejected
}

TEST(RandomTest, ChanceIsInPartsPerMillion) {
  SeededRandom random(9);
  int hits = 0;
  for (int i = 0; i < 100'000; ++i) {
    hits += random.chance_ppm(250'000) ? 1 : 0;
    EXPECT_FALSE(random.chance_ppm(0));
    EXPECT_TRUE(random.chance_ppm(1'000'000));
  }
  EXPECT_NEAR(hits, 25'000, 1000);
}

}  // namespace
}  // namespace verbena
