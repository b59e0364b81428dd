// SPDX-License-Identifier: Apache-2.0
// The device's files as a private mount namespace of this process and what it becomes: plain files
// in memory, over /sys/class and /dev, with everything else of these bound through. It goes with
// the last process in it; nothing is left.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "identity/tree.h"

namespace verbena::cli {

// Enters it; as the same user and group, without any privilege gained or lost. Says what the system
// refused. The process has one thread. `while_open` is called when all files are there, before
// they are closed to writing.
[[nodiscard]] Result<void, std::string> enter_namespace_view(
    const identity::Tree& tree, const std::function<void()>& while_open);

// Whether it would be let in: tried out in a child.
[[nodiscard]] bool can_enter_namespace_view(const identity::Tree& tree);

}  // namespace verbena::cli
