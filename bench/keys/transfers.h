// SPDX-License-Identifier: Apache-2.0
// WRITEs of one size into, or out of, memory of different shapes.
#pragma once

#include <cstdint>
#include <vector>

#include "common/ends.h"
#include "transport/attributes.h"

namespace verbena::bench {

enum class Shape : uint8_t {
  kPlain,       // side by side
  kList,        // 256 pieces of unequal length and no alignment
  kInterleave,  // 4048 bytes, then 48 of metadata
  kSigned,      // the same, with a CRC-32 of each 4048 in the metadata
};

struct Transfer {
  Shape source = Shape::kPlain;
  Shape target = Shape::kPlain;
  transport::Mtu mtu = transport::Mtu::k4096;
};

// Data bytes of one message: whole blocks of 4048, about 1 MiB.
inline constexpr uint32_t kMessageBytes = 259 * 4048;

// Bytes of data per second.
[[nodiscard]] std::vector<double> transfer(Role role, const Control& control,
                                           const Transfer& transfer, uint64_t total_bytes);

}  // namespace verbena::bench
