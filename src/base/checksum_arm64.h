// SPDX-License-Identifier: Apache-2.0
// CRC-32 with the instructions of arm64, twice as quick as ISA-L's on cores that have the units for
// both: most of the bytes are folded by carry-less multiplication while the rest go through the CRC
// unit.
#pragma once

#include <cstddef>
#include <cstdint>

namespace verbena {

// Whether this processor has both units.
[[nodiscard]] bool has_crc32_arm64();
// The state after `bytes`.
[[nodiscard]] uint32_t crc32_update_arm64(uint32_t state, const uint8_t* p, size_t bytes);
// The same, and copies: each byte is read once.
[[nodiscard]] uint32_t crc32_copy_arm64(uint32_t state, uint8_t* to, const uint8_t* p,
                                        size_t bytes);

}  // namespace verbena
