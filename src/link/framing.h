// SPDX-License-Identifier: Apache-2.0
// Between the transport's packets and Ethernet frames, for links that carry whole frames (the
// simulated one, captures); a UDP socket leaves this to the kernel.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/result.h"
#include "transport/work.h"

namespace verbena::link {

// The frame of one packet, right to the ICRC. `ipv4_id` is used when the path is IPv4.
[[nodiscard]] std::vector<uint8_t> frame_of(const transport::OutPacket& packet, uint16_t ipv4_id);

// Why a frame was dropped before the transport saw it.
enum class FrameError : uint8_t { kNotRoce, kBadIcrc, kMalformed };
[[nodiscard]] const char* to_string(FrameError error);

// The packet inside a frame, a view into it. The ICRC is checked exactly, the IPv4 identification
// being in sight.
[[nodiscard]] Result<transport::InPacket, FrameError> open_frame(std::span<const uint8_t> frame);

}  // namespace verbena::link
