// SPDX-License-Identifier: Apache-2.0
// Moving memory and knowing its CRC-32: bytes per second over `total` bytes, the same `bytes` again
// and again.
#pragma once

#include <cstdint>

namespace verbena::bench {

[[nodiscard]] double copy_with_crc(uint32_t bytes, uint64_t total);
[[nodiscard]] double copy_then_isal(uint32_t bytes, uint64_t total);

}  // namespace verbena::bench
