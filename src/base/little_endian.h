// SPDX-License-Identifier: Apache-2.0
// For algorithms that read words least significant byte first, on every machine. What we define
// ourselves is big-endian (endian.h).
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace verbena {

[[nodiscard]] inline uint64_t load_le64(const uint8_t* p) {
  uint64_t value = 0;
  std::memcpy(&value, p, sizeof value);
  return std::endian::native == std::endian::little ? value : std::byteswap(value);
}

inline void store_le64(uint8_t* p, uint64_t value) {
  if constexpr (std::endian::native != std::endian::little) value = std::byteswap(value);
  std::memcpy(p, &value, sizeof value);
}

}  // namespace verbena
