// SPDX-License-Identifier: Apache-2.0
// The CRCs of checksum.h and block_sums.h by tables, for processors without the instructions that
// checksum_arm64.h and checksum_x86.h use: eight bytes at a time.
#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/checksum.h"
#include "base/endian.h"

namespace verbena {

// By a polynomial of up to 64 bits, reflected, in the low bits; the state as well.
template <uint64_t kPolynomial>
class CrcTables {
 public:
  [[nodiscard]] static uint64_t lsb_first(uint64_t state, std::span<const uint8_t> bytes) {
    return update(state, bytes, [](uint64_t word) { return word; });
  }
  // Of a CRC that takes the most significant bit of each byte first. The state is reversed.
  [[nodiscard]] static uint64_t msb_first(uint64_t state, std::span<const uint8_t> bytes) {
    return update(state, bytes, reverse_in_bytes);
  }

 private:
  // [i][b]: what byte b, followed by i zero bytes, does to the state.
  static constexpr auto kTables = [] {
    std::array<std::array<uint64_t, 256>, 8> tables{};
    for (size_t byte = 0; byte < 256; ++byte) {
      uint64_t state = byte;
      for (auto& table : tables) {
        for (int bit = 0; bit < 8; ++bit) state = CrcAlgebra<kPolynomial>::times_x(state);
        table[byte] = state;
      }
    }
    return tables;
  }();

  [[nodiscard]] static constexpr uint64_t reverse_in_bytes(uint64_t word) {
    word = ((word >> 1) & 0x5555555555555555) | ((word & 0x5555555555555555) << 1);
    word = ((word >> 2) & 0x3333333333333333) | ((word & 0x3333333333333333) << 2);
    return ((word >> 4) & 0x0f0f0f0f0f0f0f0f) | ((word & 0x0f0f0f0f0f0f0f0f) << 4);
  }

  template <typename Order>
  [[nodiscard]] static uint64_t update(uint64_t state, std::span<const uint8_t> bytes,
                                       Order order) {
    for (; bytes.size() >= 8; bytes = bytes.subspan(8)) {
      const uint64_t word = order(std::byteswap(load_be64(bytes.data()))) ^ state;
      state = 0;
      for (size_t i = 0; i < 8; ++i) state ^= kTables[7 - i][(word >> (8 * i)) & 0xff];
    }
    for (const uint8_t byte : bytes) {
      state = (state >> 8) ^ kTables[0][(state ^ order(byte)) & 0xff];
    }
    return state;
  }
};

}  // namespace verbena
