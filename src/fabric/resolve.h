// SPDX-License-Identifier: Apache-2.0
// Addresses of endpoints.
#pragma once

#include <sys/socket.h>

#include "fabric/fabric.h"

namespace verbena::fabric {

// Looks up a name that is not numeric, which may take a while. `passive`: to listen at.
[[nodiscard]] Result<sockaddr_storage> resolve(const Endpoint& endpoint, bool passive);

}  // namespace verbena::fabric
