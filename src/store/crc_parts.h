// SPDX-License-Identifier: Apache-2.0
// Combines CRC-32/BZIP2 values of parts into that of the whole, without the bytes. For lengths up
// to that of a chunk this is one multiplication, by a table of x^(8n). All values are finished.
#pragma once

#include <cstdint>
#include <span>

namespace verbena::store {

[[nodiscard]] uint32_t crc_of(std::span<const uint8_t> bytes);
// The same in one pass with copying them.
[[nodiscard]] uint32_t crc_copy(uint8_t* to, std::span<const uint8_t> bytes);

// Of A||B. A length above 4096 takes one multiplication more for each bit set in length / 4096.
[[nodiscard]] uint32_t crc_join(uint32_t crc_a, uint32_t crc_b, uint64_t length_b);
// Of A, given those of A||B and B: two multiplications. And of B, given those of A||B and A.
[[nodiscard]] uint32_t crc_without_tail(uint32_t crc_ab, uint32_t crc_b, uint64_t length_b);
[[nodiscard]] uint32_t crc_without_head(uint32_t crc_ab, uint32_t crc_a, uint64_t length_b);
// Of A||B||C with B replaced by B', given that of A||B||C.
[[nodiscard]] uint32_t crc_patch(uint32_t crc_abc, uint32_t crc_b, uint32_t crc_b_new,
                                 uint64_t length_c);
// Of A followed by `zeros` zero bytes, and of zeros alone.
[[nodiscard]] uint32_t crc_zeros_after(uint32_t crc_a, uint64_t zeros);
[[nodiscard]] uint32_t crc_of_zeros(uint64_t zeros);

}  // namespace verbena::store
