// SPDX-License-Identifier: Apache-2.0
// The two processes of the live run: a target, forked from this one before it has a device or
// threads, and the initiator, which is this one. Neither outlives the other.
#pragma once

#include <functional>
#include <string>

#include "demo/line.h"

namespace verbena::demo {

using Role = std::function<void(Line& line)>;

// Runs both to their ends. Gives why it did not end well, for a person; empty: it did.
[[nodiscard]] std::string run_processes(const Role& target, const Role& initiator);

}  // namespace verbena::demo
