// SPDX-License-Identifier: Apache-2.0
// From the kernel's socket to an rsocket and back.
#pragma once

#include "rspreload/table.h"

namespace verbena::rspreload {

// An rsocket with what the user wants of all of them; -1 and errno.
[[nodiscard]] int make_rsocket(int domain, int type);

// The rsocket of a descriptor that is about to carry data; -1 if the kernel's socket carries them.
// With RDMAV_FORK_SAFE, this is where a connection of TCP becomes one.
[[nodiscard]] int carrier(int fd, const HeldEntry& entry);

// The peer has no rsocket: connects by TCP, and says so once. As connect().
[[nodiscard]] int connect_by_tcp(int fd, Entry& entry, const sockaddr* address, socklen_t length);

}  // namespace verbena::rspreload
