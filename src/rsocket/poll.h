// SPDX-License-Identifier: Apache-2.0
// Waiting for any of several descriptors, rsockets among them.
#pragma once

#include <optional>
#include <span>

#include <poll.h>

#include "rsocket/socket.h"

namespace verbena::rsocket {

// As poll(): how many are ready, or a negative error number.
[[nodiscard]] int poll_any(std::span<pollfd> fds, std::optional<Clock::time_point> until);

}  // namespace verbena::rsocket
