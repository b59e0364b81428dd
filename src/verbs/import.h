// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "verbs/objects.h"

namespace verbena::verbs {

// A descriptor by which `session` can be imported; negative: there are no more.
[[nodiscard]] int open_session(const std::shared_ptr<Session>& session);
// A context of `session` that owns `cmd_fd` if it is made.
[[nodiscard]] ibv_context* open_context(std::shared_ptr<Session> session, int cmd_fd);

}  // namespace verbena::verbs
