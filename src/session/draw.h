// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>

#include "base/endian.h"
#include "base/random.h"

namespace verbena::session {

template <size_t N>
[[nodiscard]] std::array<uint8_t, N> draw_bytes(RandomSource& random) {
  static_assert(N % sizeof(uint64_t) == 0);
  std::array<uint8_t, N> bytes;
  for (size_t i = 0; i < N; i += sizeof(uint64_t)) store_be64(bytes.data() + i, random.next());
  return bytes;
}

}  // namespace verbena::session
