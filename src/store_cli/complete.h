// SPDX-License-Identifier: Apache-2.0
// `verbena __complete` for the commands on a store: with the names of objects.
#pragma once

#include <span>
#include <string>

#include "cli/command.h"

namespace verbena::store_cli {

// `words`: those behind the command's name, the last of which is not finished.
[[nodiscard]] int complete(cli::Command& command, std::span<const std::string> words);

}  // namespace verbena::store_cli
