// SPDX-License-Identifier: Apache-2.0
// Bytes that can be told from all others.
#pragma once

#include <cstdint>
#include <span>

namespace verbena::host_sim {

[[nodiscard]] inline uint64_t contents_of(uint32_t process, uint64_t number) {
  return process * uint64_t{0x9e37'79b9} + number * 0x1'0001 + 1;
}
[[nodiscard]] inline uint8_t byte_at(uint64_t which, size_t i) {
  return static_cast<uint8_t>((which * 0x9e37'79b9'7f4a'7c15 >> (i % 8 * 7)) + i / 8 * 13);
}
inline void fill(std::span<uint8_t> bytes, uint64_t which) {
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = byte_at(which, i);
}
[[nodiscard]] inline bool is_filled(std::span<const uint8_t> bytes, uint64_t which) {
  for (size_t i = 0; i < bytes.size(); ++i) {
    if (bytes[i] != byte_at(which, i)) return false;
  }
  return true;
}

}  // namespace verbena::host_sim
