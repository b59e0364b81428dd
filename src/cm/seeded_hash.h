// SPDX-License-Identifier: Apache-2.0
// A hash of what peers choose: without the seed they cannot choose what collides.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace verbena::cm {

[[nodiscard]] inline uint64_t seeded_hash(uint64_t seed, std::initializer_list<uint64_t> words) {
  uint64_t z = seed;
  for (const uint64_t word : words) {
    z = (z ^ word) * 0xbf58476d1ce4e5b9;
    z ^= z >> 29;
    z = z * 0x94d049bb133111eb + seed;
    z ^= z >> 32;
  }
  return z;
}

}  // namespace verbena::cm
