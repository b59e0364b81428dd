// SPDX-License-Identifier: Apache-2.0
// `verbena devices`: what a program will see, asked of the drop-in library as a program would.
#pragma once

#include <string>

#include "cli/choices.h"

namespace verbena::cli {

// The exit status, after having said what was wrong.
[[nodiscard]] int show_devices(const Environment& environment, bool json);

}  // namespace verbena::cli
