// SPDX-License-Identifier: Apache-2.0
// The CRCs of checksum.h and block_sums.h by carry-less multiplication on x86-64.
#pragma once

#include <cstddef>
#include <cstdint>

namespace verbena {

#if defined(__x86_64__)
inline constexpr bool kX86 = true;
#else
inline constexpr bool kX86 = false;  // none of these exist
#endif

// Whether this processor has the instructions (PCLMULQDQ, SSSE3).
[[nodiscard]] bool has_clmul_x86();

// The state after `bytes`; and the same, with copying: each byte is read once.
[[nodiscard]] uint32_t crc32_update_x86(uint32_t state, const uint8_t* p, size_t bytes);
[[nodiscard]] uint32_t crc32_copy_x86(uint32_t state, uint8_t* to, const uint8_t* p, size_t bytes);
[[nodiscard]] uint32_t crc32_msb_update_x86(uint32_t state, const uint8_t* p, size_t bytes);
[[nodiscard]] uint32_t crc32_msb_copy_x86(uint32_t state, uint8_t* to, const uint8_t* p,
                                          size_t bytes);
[[nodiscard]] uint32_t crc32c_update_x86(uint32_t state, const uint8_t* p, size_t bytes);
[[nodiscard]] uint32_t crc32c_copy_x86(uint32_t state, uint8_t* to, const uint8_t* p, size_t bytes);
[[nodiscard]] uint64_t crc64_update_x86(uint64_t state, const uint8_t* p, size_t bytes);
[[nodiscard]] uint64_t crc64_copy_x86(uint64_t state, uint8_t* to, const uint8_t* p, size_t bytes);
[[nodiscard]] uint16_t crc16_t10_update_x86(uint16_t state, const uint8_t* p, size_t bytes);
[[nodiscard]] uint16_t crc16_t10_copy_x86(uint16_t state, uint8_t* to, const uint8_t* p,
                                          size_t bytes);

}  // namespace verbena
