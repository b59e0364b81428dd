// SPDX-License-Identifier: Apache-2.0
// Explicit congestion notification in the IP headers of a packet (RFC 3168).
//
//   IPv4   byte 1: |  DSCP (6)  |ECN|                 then a checksum in bytes 10 and 11
//   IPv6   byte 1: |DS|ECN| flow |                    bits 5 and 4; there is no checksum
//
//   ECN: 00 not capable, 01 ECT(1), 10 ECT(0), 11 CE: congestion was met
#pragma once

#include <cstdint>
#include <span>

namespace verbena::emulated {

// Whether the sender heeds marks (CE is there already, or would be understood).
[[nodiscard]] bool is_ect(std::span<const uint8_t> packet);
// Sets CE. Of a packet that is_ect().
void mark_ce(std::span<uint8_t> packet);

}  // namespace verbena::emulated
