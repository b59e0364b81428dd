// SPDX-License-Identifier: Apache-2.0
// The checksums that signatures of memory blocks are made of, beside the CRC-32 of checksum.h.
//
// Each has a *state*: what its register holds, before the final XOR. Seeds are states, and a
// message may be fed in pieces of any lengths.
//
//   *_update   the state after `bytes`
//   *_copy     the same, in one pass with copying them to `to`, which may not overlap them: the
//              state is of what lies there afterwards, even if others change `bytes` meanwhile
#pragma once

#include <cstdint>
#include <span>

#include "base/checksum.h"

namespace verbena {

// CRC-32 of FC-PH and BZIP2: polynomial 0x04C11DB7, most significant bit first.
[[nodiscard]] uint32_t crc32_msb_update(uint32_t state, std::span<const uint8_t> bytes);
[[nodiscard]] uint32_t crc32_msb_copy(uint32_t state, uint8_t* to, std::span<const uint8_t> bytes);

// The crc (finished; the initial value and the final XOR are equal) of A||B, given both and the
// length of B below 2^61 bytes.
[[nodiscard]] constexpr uint32_t crc32_msb_combine(uint32_t crc_a, uint32_t crc_b,
                                                   uint64_t length_b_bytes) {
  return reverse_bits(crc32_combine(reverse_bits(crc_a), reverse_bits(crc_b), length_b_bytes));
}

// CRC-32C, of iSCSI.
inline constexpr uint32_t kCrc32cPolynomial = 0x82f63b78;  // reflected
[[nodiscard]] uint32_t crc32c_update(uint32_t state, std::span<const uint8_t> bytes);
[[nodiscard]] uint32_t crc32c_copy(uint32_t state, uint8_t* to, std::span<const uint8_t> bytes);

// CRC-64/XP10, which NVMe calls Rocksoft's.
inline constexpr uint64_t kCrc64Polynomial = 0x9a6c9329ac4bc9b5;  // reflected
[[nodiscard]] uint64_t crc64_update(uint64_t state, std::span<const uint8_t> bytes);
[[nodiscard]] uint64_t crc64_copy(uint64_t state, uint8_t* to, std::span<const uint8_t> bytes);

// CRC-16 of T10-DIF: polynomial 0x8BB7, most significant bit first, no final XOR.
[[nodiscard]] uint16_t crc16_t10_update(uint16_t state, std::span<const uint8_t> bytes);
[[nodiscard]] uint16_t crc16_t10_copy(uint16_t state, uint8_t* to, std::span<const uint8_t> bytes);

// The Internet checksum (RFC 1071): the ones' complement sum of big-endian 16-bit words. The
// checksum is uint16_t(~sum).
struct InternetSum {
  uint32_t sum = 0;  // below 2^16 after an update; a seed may be any
  bool odd = false;  // the last byte was the upper half of a word whose lower half is to come
  bool operator==(const InternetSum&) const = default;
};
[[nodiscard]] InternetSum internet_sum_update(InternetSum state, std::span<const uint8_t> bytes);
[[nodiscard]] InternetSum internet_sum_copy(InternetSum state, uint8_t* to,
                                            std::span<const uint8_t> bytes);

}  // namespace verbena
