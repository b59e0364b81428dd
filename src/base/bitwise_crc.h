// SPDX-License-Identifier: Apache-2.0
// CRCs one bit at a time, from their definition: what tests compare the quick ones with. Both give
// the register after `bytes`; seed and final XOR are the caller's.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

namespace verbena {

// Most significant bit first; as many bits as Word has.
template <typename Word>
[[nodiscard]] constexpr Word bitwise_crc_msb(Word polynomial, Word state,
                                             std::span<const uint8_t> bytes) {
  constexpr int kBits = std::numeric_limits<Word>::digits;
  for (const uint8_t byte : bytes) {
    state = static_cast<Word>(state ^ (Word{byte} << (kBits - 8)));
    for (int bit = 0; bit < 8; ++bit) {
      const bool out = (state >> (kBits - 1)) != 0;
      state = static_cast<Word>((state << 1) ^ (out ? polynomial : 0));
    }
  }
  return state;
}

// Reflected: least significant bit first, the polynomial's bits in that order too.
template <typename Word>
[[nodiscard]] constexpr Word bitwise_crc_lsb(Word polynomial, Word state,
                                             std::span<const uint8_t> bytes) {
  for (const uint8_t byte : bytes) {
    state ^= byte;
    for (int bit = 0; bit < 8; ++bit) {
      state = static_cast<Word>((state >> 1) ^ ((state & 1) != 0 ? polynomial : 0));
    }
  }
  return state;
}

}  // namespace verbena
