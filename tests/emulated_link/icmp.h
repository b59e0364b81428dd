// SPDX-License-Identifier: Apache-2.0
// What a router says about a packet that does not fit the next link.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace verbena::emulated {

// IP header, ICMP header, and of the packet its IP header without options and 8 bytes.
using TooLargeMessage = std::array<uint8_t, 20 + 8 + 28>;

// Whether its sender wants to hear of it: IPv4 with DF.
[[nodiscard]] bool wants_to_hear(std::span<const uint8_t> packet);
// "Fragmentation needed" (RFC 792, RFC 1191), from the packet's destination to its source.
[[nodiscard]] TooLargeMessage too_large(std::span<const uint8_t> packet, uint16_t carried_bytes);

}  // namespace verbena::emulated
