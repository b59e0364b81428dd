// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>

#include "wire/gid.h"

namespace verbena::link {

// From a ring: headers that nobody else can change any more, and a payload that the other end still
// can.
struct RingPacket {
  std::span<const uint8_t> headers;
  std::span<const uint8_t> payload;
  wire::Gid source;
  wire::Gid destination;
  uint8_t traffic_class = 0;
  uint8_t hop_limit = 0;
};

}  // namespace verbena::link
