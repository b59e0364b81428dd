// SPDX-License-Identifier: Apache-2.0
#include "store_cli/latency_histogram.h"

#include <cmath>
#include <vector>

#include <gtest/gtest.h>

#include "base/random.h"

namespace verbena::store_cli {
namespace {

TEST(LatencyHistogram, ShortTimesAreExact) {
  LatencyHistogram times;
  for (Duration ns = 1; ns <= 100; ++ns) times.add(ns);
  EXPECT_EQ(times.count(), 100);
  EXPECT_EQ(times.min_ns(), 1);
  EXPECT_EQ(times.max_ns(), 100);
  EXPECT_EQ(times.mean_ns(), 50.5);
  EXPECT_EQ(times.percentile_ns(0.5), 50);
  EXPECT_EQ(times.percentile_ns(0.99), 99);
  EXPECT_EQ(times.percentile_ns(0), 1);
  EXPECT_EQ(times.percentile_ns(1), 100);
}

TEST(LatencyHistogram, OfNothing) {
  const LatencyHistogram times;
  EXPECT_EQ(times.count(), 0);
  EXPECT_EQ(times.mean_ns(), 0);
  EXPECT_EQ(times.percentile_ns(0.99), 0);
}

TEST(LatencyHistogram, LongTimesAreWithinOnePart) {
  SeededRandom random(1);
  LatencyHistogram times;
  std::vector<uint64_t> all;
  for (int i = 0; i < 10'000; ++i) {
    const uint64_t ns = random.next() >> (1 + random.below(60));
    all.push_back(ns);
    times.add(static_cast<Duration>(ns));
  }
  std::ranges::sort(all);
  for (const double part : {0.1, 0.5, 0.9, 0.99, 0.999}) {
    const auto index = static_cast<size_t>(std::ceil(part * static_cast<double>(all.size()))) - 1;
    const uint64_t exact = all[index];
    EXPECT_GE(times.percentile_ns(part), exact) << part;
    EXPECT_LE(times.percentile_ns(part), exact + exact / 64) << part;
  }
  EXPECT_EQ(times.percentile_ns(1), all.back());
}

TEST(LatencyHistogram, EndsOfBucketsAndTheirSum) {
  LatencyHistogram one;
  LatencyHistogram other;
  for (int bit = 0; bit < 63; ++bit) {
    one.add(Duration{1} << bit);
    other.add((Duration{1} << bit) - 1);
  }
  one.add(other);
  EXPECT_EQ(one.count(), 126);
  EXPECT_EQ(one.min_ns(), 0);
  uint64_t before = 0;
  uint64_t sum = 0;
  one.each([&](uint64_t last_ns, uint64_t count) {
    EXPECT_TRUE(sum == 0 || last_ns > before);
    before = last_ns;
    sum += count;
  });
  EXPECT_EQ(sum, 126);
}

}  // namespace
}  // namespace verbena::store_cli
