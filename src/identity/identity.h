// SPDX-License-Identifier: Apache-2.0
// Who the device says it is, and how its port is: for the verbs library and for the files in /sys
// alike, so that both tell the same.
#pragma once

#include <cstdint>
#include <string>

#include "identity/settings.h"

namespace verbena::identity {

struct Identity {
  uint32_t vendor_id = 0;
  uint32_t part_id = 0;
  uint32_t hardware_version = 0;
  const char* firmware = "";
  const char* board = "";
  const char* type = "";  // hca_type in /sys
};
[[nodiscard]] Identity identity_of(Kind kind);

// In the numbers of the InfiniBand standard, as verbs and /sys give them.
struct Port {
  uint8_t state = 4;           // active
  uint8_t physical_state = 5;  // link up
  uint8_t width = 1;           // 1x
  uint8_t speed = 1;           // 2.5 Gb/s: software has none, and this is the least
  uint32_t capabilities = 0;
  uint16_t pkey = 0xffff;  // the default partition, full member
};
inline constexpr Port kPort;
inline constexpr uint8_t kPortNumber = 1;
inline constexpr const char* kUverbsName = "uverbs0";

// Stable for this machine; in network order.
[[nodiscard]] uint64_t node_guid();

}  // namespace verbena::identity
