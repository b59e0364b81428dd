// SPDX-License-Identifier: Apache-2.0
// The numbers of kBits bits in an order that only its keys tell: a secret permutation of a counter.
// None comes again before all others were given, and who has seen some cannot tell the next.
//
// The permutation is a Feistel network over the two halves, which is one whatever its round
// function is; ten rounds, as NIST's FF1 has for numbers as small as these.
#pragma once

#include <array>
#include <cstdint>

#include "base/random.h"

namespace verbena {

template <uint32_t kBits>
class SecretOrder {
  static_assert(kBits % 2 == 0 && kBits <= 32);

 public:
  explicit SecretOrder(RandomSource& random) : counter_(static_cast<uint32_t>(random.next())) {
    for (uint64_t& key : keys_) key = random.next();
  }

  [[nodiscard]] uint32_t next() {
    const uint32_t value = counter_++;
    uint32_t left = (value >> kHalfBits) & kHalfMask;
    uint32_t right = value & kHalfMask;
    for (const uint64_t key : keys_) {
      const uint32_t mixed = left ^ round(key, right);
      left = right;
      right = mixed;
    }
    return (left << kHalfBits) | right;
  }

 private:
  static constexpr uint32_t kHalfBits = kBits / 2;
  static constexpr uint32_t kHalfMask = (1u << kHalfBits) - 1;

  // splitmix64's finish
  [[nodiscard]] static uint32_t round(uint64_t key, uint32_t half) {
    uint64_t z = (key ^ half) + 0x9e3779b97f4a7c15 * (half + 1);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return static_cast<uint32_t>(z >> 40) & kHalfMask;
  }

  uint32_t counter_;
  std::array<uint64_t, 10> keys_{};
};

}  // namespace verbena
