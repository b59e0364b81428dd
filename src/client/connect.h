// SPDX-License-Identifier: Apache-2.0
// A client over verbs, from what a user says.
#pragma once

#include <memory>

#include "client/client.h"
#include "client/remote_options.h"

namespace verbena::client {

[[nodiscard]] Result<std::unique_ptr<Client>> connect(const RemoteOptions& options);

}  // namespace verbena::client
