// SPDX-License-Identifier: Apache-2.0
// Unreliable datagrams: one packet is one message; no acknowledgement, no order.
#pragma once

#include "transport/core.h"

namespace verbena::transport::datagram {

// Bytes of the global routing header that stand before the payload in a UD receive.
inline constexpr uint32_t kGrhBytes = 40;

// Sends the entry `number`; false when its memory is not usable.
[[nodiscard]] bool send(Core& core, QueuePair& qp, uint64_t number);
void on_datagram(Core& core, QueuePair& qp, const InPacket& packet);

}  // namespace verbena::transport::datagram
