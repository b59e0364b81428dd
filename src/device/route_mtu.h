// SPDX-License-Identifier: Apache-2.0
// What the way to an address carries, as far as the kernel knows: its interface's MTU, its route's,
// or what a router on the way said was too much (path MTU discovery).
#pragma once

#include <cstdint>

#include "wire/gid.h"

namespace verbena::device {

// Bytes of an IP packet; 0: there is no way, or no descriptor for a question.
[[nodiscard]] uint32_t route_mtu(const wire::Gid& destination);

}  // namespace verbena::device
