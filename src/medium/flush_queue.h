// SPDX-License-Identifier: Apache-2.0
// Ranges that were flushed and wait for the next fence: noted cheaply, merged when they are taken.
// Thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <new>
#include <utility>
#include <vector>

#include "base/mutex.h"

namespace verbena::medium {

class FlushQueue {
 public:
  struct Range {
    uint64_t begin = 0;
    uint64_t end = 0;
    bool operator==(const Range&) const = default;
  };

  void add(uint64_t begin, uint64_t end) {
    const MutexLock lock(mutex_);
    if (!ranges_.empty() && ranges_.back().end == begin) {
      ranges_.back().end = end;
      return;
    }
    ranges_.push_back({begin, end});
    // Without fences it grows no further than what is distinct.
    if (ranges_.size() >= merge_at_) {
      merge(ranges_);
      merge_at_ = std::max(kMergeAt, 2 * ranges_.size());
    }
  }
  // All there are, in order, apart from each other.
  [[nodiscard]] std::vector<Range> take() {
    std::vector<Range> taken;
    {
      const MutexLock lock(mutex_);
      std::swap(taken, ranges_);
    }
    merge(taken);
    return taken;
  }
  // Forgets what is within. False: there is no memory for what is left, and nothing has changed.
  [[nodiscard]] bool drop(uint64_t begin, uint64_t end) noexcept {
    const MutexLock lock(mutex_);
    // What lies on both sides becomes two.
    const auto both = [&](const Range& range) { return range.begin < begin && range.end > end; };
    const size_t before = ranges_.size();
    try {
      ranges_.reserve(before + static_cast<size_t>(std::ranges::count_if(ranges_, both)));
    } catch (const std::bad_alloc&) {
      return false;
    }
    for (size_t i = 0; i < before; ++i) {
      Range& range = ranges_[i];
      if (range.end <= begin || range.begin >= end) continue;
      if (both(range)) ranges_.push_back({end, range.end});
      if (range.begin < begin) {
        range.end = begin;
      } else {
        range = {std::max(range.begin, end), std::max(range.end, end)};
      }
    }
    std::erase_if(ranges_, [](const Range& range) { return range.begin == range.end; });
    return true;
  }

  [[nodiscard]] size_t size() {
    const MutexLock lock(mutex_);
    return ranges_.size();
  }

 private:
  static constexpr size_t kMergeAt = 65'536;

  static void merge(std::vector<Range>& ranges) {
    std::ranges::sort(ranges, {}, &Range::begin);
    size_t kept = 0;
    for (const Range& range : ranges) {
      if (kept > 0 && ranges[kept - 1].end >= range.begin) {
        ranges[kept - 1].end = std::max(ranges[kept - 1].end, range.end);
      } else {
        ranges[kept++] = range;
      }
    }
    ranges.resize(kept);
  }

  Mutex mutex_;
  std::vector<Range> ranges_ VERBENA_GUARDED_BY(mutex_);
  size_t merge_at_ VERBENA_GUARDED_BY(mutex_) = kMergeAt;
};

}  // namespace verbena::medium
