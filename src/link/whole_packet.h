// SPDX-License-Identifier: Apache-2.0
// A packet from a ring as it would be on the wire, for those who look on: padded, with its ICRC.
#pragma once

#include <cstdint>
#include <span>

#include "wire/icrc.h"

namespace verbena::link {

// `room` has wire::kMaxPacketBytes. Headers and payload are no longer than a packet's.
[[nodiscard]] std::span<const uint8_t> whole_packet(std::span<uint8_t> room,
                                                    const wire::IcrcFlow& flow,
                                                    std::span<const uint8_t> headers,
                                                    std::span<const uint8_t> payload);

}  // namespace verbena::link
