// SPDX-License-Identifier: Apache-2.0
// A program that a command runs and waits for.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "cli/program.h"

namespace verbena::store_cli {

// Its exit status, or 128 + the signal that ended it. Signals that this process notes meanwhile are
// passed on, but those of the terminal, which the program gets itself.
[[nodiscard]] Result<int, cli::NoProgram> run_child(const std::vector<std::string>& words);

}  // namespace verbena::store_cli
