// SPDX-License-Identifier: Apache-2.0
// Big-endian loads and stores: every multi-byte field on the wire and on media goes through these,
// never through a cast of a struct.
#pragma once

#include <bit>
#include <cstdint>
#include <cstring>

namespace verbena {

template <typename T>
[[nodiscard]] inline T load_be(const uint8_t* p) {
  T value;
  std::memcpy(&value, p, sizeof value);
  if constexpr (std::endian::native == std::endian::little && sizeof(T) > 1) {
    value = std::byteswap(value);
  }
  return value;
}

template <typename T>
inline void store_be(uint8_t* p, T value) {
  if constexpr (std::endian::native == std::endian::little && sizeof(T) > 1) {
    value = std::byteswap(value);
  }
  std::memcpy(p, &value, sizeof value);
}

[[nodiscard]] inline uint16_t load_be16(const uint8_t* p) { return load_be<uint16_t>(p); }
[[nodiscard]] inline uint32_t load_be32(const uint8_t* p) { return load_be<uint32_t>(p); }
[[nodiscard]] inline uint64_t load_be64(const uint8_t* p) { return load_be<uint64_t>(p); }
[[nodiscard]] inline uint32_t load_be24(const uint8_t* p) {
  return (uint32_t{p[0]} << 16) | (uint32_t{p[1]} << 8) | p[2];
}

inline void store_be16(uint8_t* p, uint16_t value) { store_be(p, value); }
inline void store_be32(uint8_t* p, uint32_t value) { store_be(p, value); }
inline void store_be64(uint8_t* p, uint64_t value) { store_be(p, value); }
inline void store_be24(uint8_t* p, uint32_t value) {
  p[0] = static_cast<uint8_t>(value >> 16);
  p[1] = static_cast<uint8_t>(value >> 8);
  p[2] = static_cast<uint8_t>(value);
}

}  // namespace verbena
