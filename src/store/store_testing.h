// SPDX-License-Identifier: Apache-2.0
// What tests of whole stores share.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/random.h"
#include "store/error.h"

namespace verbena::store {

using Bytes = std::vector<uint8_t>;
inline constexpr ObjectId kOne{1, 1};
inline constexpr ObjectId kTwo{1, 2};

inline Bytes pattern(size_t size, uint64_t seed) {
  SeededRandom random(seed);
  Bytes bytes(size);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random.next());
  return bytes;
}

}  // namespace verbena::store
