// SPDX-License-Identifier: Apache-2.0
// CRC-32 as Ethernet, gzip and the ICRC have it: polynomial 0x04C11DB7 reflected (0xEDB88320),
// initial value and final XOR all ones. Two ways to write a CRC are kept apart here:
//
//   state   what the shift register holds: all ones at the start, not inverted; fed in pieces
//   crc     the finished value: ~state
//
// It is made by carry-less multiplication where the processor has that (checksum_arm64.h,
// checksum_x86.h), and by tables elsewhere (checksum_portable.h).
//
// Below it, the arithmetic that lets checksums be put together from parts without the bytes. A
// reflected 32-bit value is a polynomial over GF(2) of degree < 32 whose bit 31 is the coefficient
// of x^0; appending n bytes to a message multiplies its remainder by x^(8n).
#pragma once

#include <array>
#include <cstdint>
#include <limits>
#include <span>
#include <type_traits>
#include <utility>

namespace verbena {

inline constexpr uint32_t kCrc32Polynomial = 0xedb88320;  // reflected
inline constexpr uint32_t kCrc32Start = 0xffffffff;       // state before the first byte

// The state after `bytes`.
[[nodiscard]] uint32_t crc32_update(uint32_t state, std::span<const uint8_t> bytes);
// The same, in one pass with copying them to `to`: the state is of what lies there afterwards, even
// if others change `bytes` meanwhile.
[[nodiscard]] uint32_t crc32_copy(uint32_t state, uint8_t* to, std::span<const uint8_t> bytes);
[[nodiscard]] constexpr uint32_t crc32_finish(uint32_t state) { return ~state; }
// The CRC of one whole message.
[[nodiscard]] uint32_t crc32(std::span<const uint8_t> bytes);

// Most significant bit first <-> reflected.
[[nodiscard]] constexpr uint32_t reverse_bits(uint32_t value) {
  for (const auto& [shift, mask] :
       {std::pair{1, 0x55555555u}, {2, 0x33333333u}, {4, 0x0f0f0f0fu}}) {
    value = ((value >> shift) & mask) | ((value & mask) << shift);
  }
  return __builtin_bswap32(value);
}

// Polynomials modulo a reflected CRC polynomial of 32 or 64 bits, so that CRC-32, CRC-32C and
// CRC-64 share it; a CRC that is not reflected (CRC-32/BZIP2) joins by reversing the bits of its
// values.
template <auto kPolynomial>
struct CrcAlgebra {
  using Word = std::remove_const_t<decltype(kPolynomial)>;
  static constexpr int kBits = std::numeric_limits<Word>::digits;
  static constexpr Word kOne = Word{1} << (kBits - 1);  // x^0

  [[nodiscard]] static constexpr Word times_x(Word a) {
    return (a >> 1) ^ (kPolynomial & (0 - (a & 1)));
  }

  [[nodiscard]] static constexpr Word multiply(Word a, Word b) {
    Word product = 0;
    for (int i = 0; i < kBits; ++i) {  // Horner's scheme, the highest coefficient first
      product = times_x(product) ^ (a & (0 - ((b >> i) & 1)));
    }
    return product;
  }

  // x^n.
  [[nodiscard]] static constexpr Word power(uint64_t n) {
    Word result = kOne;
    for (size_t i = 0; n != 0; n >>= 1, ++i) {
      if ((n & 1) != 0) result = multiply(result, kSquares[i]);
    }
    return result;
  }

  // The crc of A||B from theirs, for CRCs whose initial value and final XOR are equal.
  [[nodiscard]] static constexpr Word combine(Word crc_a, Word crc_b, uint64_t length_b_bytes) {
    return multiply(crc_a, power(length_b_bytes * 8)) ^ crc_b;
  }

 private:
  // x^(2^i).
  static constexpr std::array<Word, 64> kSquares = [] {
    std::array<Word, 64> squares{};
    squares[0] = kOne >> 1;
    for (size_t i = 1; i < squares.size(); ++i) {
      squares[i] = multiply(squares[i - 1], squares[i - 1]);
    }
    return squares;
  }();
};

using Crc32Algebra = CrcAlgebra<kCrc32Polynomial>;

// The crc of A||B, given both and the length of B below 2^61 bytes.
[[nodiscard]] constexpr uint32_t crc32_combine(uint32_t crc_a, uint32_t crc_b,
                                               uint64_t length_b_bytes) {
  return Crc32Algebra::combine(crc_a, crc_b, length_b_bytes);
}

}  // namespace verbena
