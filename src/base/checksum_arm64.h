// SPDX-License-Identifier: Apache-2.0
// The CRCs of checksum.h and block_sums.h with the instructions of arm64, on cores that have the
// units for both: most of the bytes are folded by carry-less multiplication while, for the CRCs
// that it knows, the rest go through the CRC unit.
#pragma once

#include <cstddef>
#include <cstdint>

namespace verbena {

#if defined(__aarch64__)
inline constexpr bool kArm64 = true;
#else
inline constexpr bool kArm64 = false;  // none of these exist
#endif

// Whether this processor has both units.
[[nodiscard]] bool has_crc32_arm64();

// The state after `bytes`; and the same, with copying: each byte is read once.
[[nodiscard]] uint32_t crc32_update_arm64(uint32_t state, const uint8_t* p, size_t bytes);
[[nodiscard]] uint32_t crc32_copy_arm64(uint32_t state, uint8_t* to, const uint8_t* p,
                                        size_t bytes);
[[nodiscard]] uint32_t crc32_msb_update_arm64(uint32_t state, const uint8_t* p, size_t bytes);
[[nodiscard]] uint32_t crc32_msb_copy_arm64(uint32_t state, uint8_t* to, const uint8_t* p,
                                            size_t bytes);
[[nodiscard]] uint32_t crc32c_update_arm64(uint32_t state, const uint8_t* p, size_t bytes);
[[nodiscard]] uint32_t crc32c_copy_arm64(uint32_t state, uint8_t* to, const uint8_t* p,
                                         size_t bytes);
[[nodiscard]] uint64_t crc64_update_arm64(uint64_t state, const uint8_t* p, size_t bytes);
[[nodiscard]] uint64_t crc64_copy_arm64(uint64_t state, uint8_t* to, const uint8_t* p,
                                        size_t bytes);
[[nodiscard]] uint16_t crc16_t10_update_arm64(uint16_t state, const uint8_t* p, size_t bytes);
[[nodiscard]] uint16_t crc16_t10_copy_arm64(uint16_t state, uint8_t* to, const uint8_t* p,
                                            size_t bytes);

// For CRC-32 with the most significant bit first: state * by * x^kCrc32TimesSurplus. `by` is
// reflected, state and answer are not.
inline constexpr unsigned kCrc32TimesSurplus = 33;
[[nodiscard]] uint32_t crc32_msb_times_arm64(uint32_t state, uint32_t by);

}  // namespace verbena
