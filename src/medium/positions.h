// SPDX-License-Identifier: Apache-2.0
// Which positions of a medium are held. The lowest free one is found first, so that a medium is
// filled from its beginning. Not thread-safe.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/check.h"

namespace verbena::medium {

class Positions {
 public:
  explicit Positions(uint32_t capacity) : capacity_(capacity), held_((capacity + 63) / 64) {}

  [[nodiscard]] uint32_t capacity() const { return capacity_; }
  [[nodiscard]] bool held(uint32_t position) const {
    return (held_[position / 64] >> (position % 64) & 1) != 0;
  }
  // The lowest that is free.
  [[nodiscard]] std::optional<uint32_t> lowest_free() {
    while (full_words_ < held_.size() && held_[full_words_] == ~uint64_t{0}) ++full_words_;
    if (full_words_ == held_.size()) return std::nullopt;
    const auto position =
        static_cast<uint32_t>(full_words_ * 64 + std::countr_one(held_[full_words_]));
    if (position >= capacity_) return std::nullopt;
    return position;
  }
  void take(uint32_t position) {
    VERBENA_CHECK(position < capacity_ && !held(position));
    held_[position / 64] |= uint64_t{1} << position % 64;
  }
  void give(uint32_t position) {
    VERBENA_CHECK(position < capacity_ && held(position));
    held_[position / 64] &= ~(uint64_t{1} << position % 64);
    full_words_ = std::min<size_t>(full_words_, position / 64);
  }

 private:
  uint32_t capacity_;
  std::vector<uint64_t> held_;
  size_t full_words_ = 0;  // all words before are full
};

}  // namespace verbena::medium
