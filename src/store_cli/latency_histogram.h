// SPDX-License-Identifier: Apache-2.0
// Times in buckets whose width grows with the time: each is told within 1/64 of itself, in 30 KB
// however many there are.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "base/time.h"

namespace verbena::store_cli {

class LatencyHistogram {
 public:
  void add(Duration ns) {
    const auto value = static_cast<uint64_t>(std::max<Duration>(ns, 0));
    ++buckets_[bucket_of(value)];
    min_ = count_ == 0 ? value : std::min(min_, value);
    max_ = std::max(max_, value);
    sum_ += static_cast<double>(value);
    ++count_;
  }
  void add(const LatencyHistogram& other) {
    if (other.count_ == 0) return;
    for (size_t i = 0; i < buckets_.size(); ++i) buckets_[i] += other.buckets_[i];
    min_ = count_ == 0 ? other.min_ : std::min(min_, other.min_);
    max_ = std::max(max_, other.max_);
    sum_ += other.sum_;
    count_ += other.count_;
  }
  [[nodiscard]] uint64_t count() const { return count_; }
  [[nodiscard]] uint64_t min_ns() const { return min_; }
  [[nodiscard]] uint64_t max_ns() const { return max_; }
  [[nodiscard]] double mean_ns() const {
    return count_ == 0 ? 0 : sum_ / static_cast<double>(count_);
  }
  // The time that this part of all, in 0 to 1, did not exceed.
  [[nodiscard]] uint64_t percentile_ns(double part) const {
    const double wanted = part * static_cast<double>(count_);
    uint64_t seen = 0;
    for (size_t i = 0; i < buckets_.size(); ++i) {
      seen += buckets_[i];
      if (buckets_[i] != 0 && static_cast<double>(seen) >= wanted) {
        return std::clamp(last_of(i), min_, max_);
      }
    }
    return max_;
  }
  // take(the greatest time of the bucket in ns, how many), of those that have any.
  template <typename Take>
  void each(Take take) const {
    for (size_t i = 0; i < buckets_.size(); ++i) {
      if (buckets_[i] != 0) take(last_of(i), buckets_[i]);
    }
  }

 private:
  // Values below 2^kBits have a bucket each; above, each power of two has 2^kBits / 2 of them.
  static constexpr int kBits = 7;
  static constexpr size_t kHalf = size_t{1} << (kBits - 1);
  [[nodiscard]] static constexpr size_t bucket_of(uint64_t value) {
    const int shift = std::max(0, static_cast<int>(std::bit_width(value)) - kBits);
    return static_cast<size_t>(shift) * kHalf + (value >> shift);
  }
  [[nodiscard]] static constexpr uint64_t last_of(size_t bucket) {
    if (bucket < 2 * kHalf) return bucket;
    const size_t shift = bucket / kHalf - 1;
    const uint64_t first = (bucket - shift * kHalf) << shift;
    return first + ((uint64_t{1} << shift) - 1);
  }

  std::array<uint64_t, (64 - kBits + 2) * kHalf> buckets_{};
  uint64_t count_ = 0;
  uint64_t min_ = 0;
  uint64_t max_ = 0;
  double sum_ = 0;
};

}  // namespace verbena::store_cli
