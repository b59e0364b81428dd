// SPDX-License-Identifier: Apache-2.0
// What the end of a request means to the caller.
#pragma once

#include <string>

#include "client/client.h"
#include "session/client.h"

namespace verbena::client {

// It was answered, and done.
[[nodiscard]] bool good(const session::Completion& completion);
// What a request that was not done, or not as it should have been, ended with.
[[nodiscard]] Error error_of(const session::Completion& completion, const std::string& why_lost);

}  // namespace verbena::client
