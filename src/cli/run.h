// SPDX-License-Identifier: Apache-2.0
// `verbena run`: becomes the program, in this very process. So signals, the terminal, job control
// and the exit status are the program's own, and nobody stays behind who could be killed; but for
// the counters of a namespace view (counter_keeper.h).
#pragma once

#include <string>
#include <vector>

#include "cli/choices.h"

namespace verbena::cli {

// Returns only what failed: the exit status, after having said why.
[[nodiscard]] int run(const std::vector<std::string>& command, View view, Environment environment);

}  // namespace verbena::cli
