// SPDX-License-Identifier: Apache-2.0
// For the little on the wire that is not big-endian.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace verbena::wire {

[[nodiscard]] inline uint64_t load_le64(const uint8_t* p) {
  uint64_t value = 0;
  std::memcpy(&value, p, sizeof value);
  return std::endian::native == std::endian::little ? value : std::byteswap(value);
}

inline void store_le64(uint8_t* p, uint64_t value) {
  if constexpr (std::endian::native != std::endian::little) value = std::byteswap(value);
  std::memcpy(p, &value, sizeof value);
}

}  // namespace verbena::wire
