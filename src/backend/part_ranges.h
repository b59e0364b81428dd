// SPDX-License-Identifier: Apache-2.0
// A set of parts as ranges [first, end), merged where they meet.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <vector>

namespace verbena::backend {

struct PartRange {
  uint64_t first = 0;
  uint64_t end = 0;
  bool operator==(const PartRange&) const = default;
};

class PartRanges {
 public:
  // False: some of it is in the set already, and nothing is added.
  [[nodiscard]] bool add(uint64_t first, uint64_t end) {
    if (first >= end) return true;
    auto next = ends_.lower_bound(first);
    if (next != ends_.end() && next->first < end) return false;
    if (next != ends_.begin()) {
      const auto before = std::prev(next);
      if (before->second > first) return false;
      if (before->second == first) {
        first = before->first;
        ends_.erase(before);
      }
    }
    if (next != ends_.end() && next->first == end) {
      end = next->second;
      ends_.erase(next);
    }
    ends_[first] = end;
    return true;
  }
  // What of [first, end) is not in the set.
  [[nodiscard]] std::vector<PartRange> gaps(uint64_t first, uint64_t end) const {
    std::vector<PartRange> gaps;
    auto next = ends_.upper_bound(first);
    if (next != ends_.begin()) first = std::max(first, std::prev(next)->second);
    for (; first < end; ++next) {
      const uint64_t until = next == ends_.end() ? end : std::min(end, next->first);
      if (first < until) gaps.push_back({first, until});
      if (next == ends_.end()) break;
      first = std::max(first, next->second);
    }
    return gaps;
  }
  [[nodiscard]] bool covers(uint64_t first, uint64_t end) const { return gaps(first, end).empty(); }

 private:
  std::map<uint64_t, uint64_t> ends_;  // by the first part
};

}  // namespace verbena::backend
