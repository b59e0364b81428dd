// SPDX-License-Identifier: Apache-2.0
// Communication ids: the slot in the top byte, and below it a secret permutation of a counter. So
// none comes again before all 2^24 were used, and who has not seen them cannot tell the next.
#pragma once

#include <array>
#include <cstdint>

#include "base/random.h"
#include "cm/types.h"

namespace verbena::cm {

class CommIdSequence {
 public:
  CommIdSequence(uint8_t slot, RandomSource& random)
      : slot_(uint32_t{slot} << kBits), counter_(static_cast<uint32_t>(random.next())) {
    for (uint64_t& key : keys_) key = random.next();
  }

  [[nodiscard]] CommId next() {
    for (;;) {
      const uint32_t low = permute(counter_++ & kMask);
      if (low != 0) return CommId(slot_ | low);  // 0 is none, also in slot 0
    }
  }

 private:
  static constexpr uint32_t kBits = 24;
  static constexpr uint32_t kMask = (1u << kBits) - 1;
  static constexpr uint32_t kHalfBits = kBits / 2;
  static constexpr uint32_t kHalfMask = (1u << kHalfBits) - 1;

  // A Feistel network over the two halves: a permutation whatever the round function is.
  [[nodiscard]] uint32_t permute(uint32_t value) const {
    uint32_t left = value >> kHalfBits;
    uint32_t right = value & kHalfMask;
    for (const uint64_t key : keys_) {
      const uint32_t mixed = left ^ round(key, right);
      left = right;
      right = mixed;
    }
    return (left << kHalfBits) | right;
  }
  // splitmix64's finish
  [[nodiscard]] static uint32_t round(uint64_t key, uint32_t half) {
    uint64_t z = (key ^ half) + 0x9e3779b97f4a7c15 * (half + 1);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return static_cast<uint32_t>(z >> 40) & kHalfMask;
  }

  uint32_t slot_;
  uint32_t counter_;
  std::array<uint64_t, 6> keys_{};
};

}  // namespace verbena::cm
