// SPDX-License-Identifier: Apache-2.0
// A client over the fabric that a user says, or over the best that both ends have.
#pragma once

#include <memory>

#include "client/client.h"
#include "client/remote_options.h"

namespace verbena::client {

[[nodiscard]] Result<std::unique_ptr<Client>> connect(const RemoteOptions& options);

}  // namespace verbena::client
