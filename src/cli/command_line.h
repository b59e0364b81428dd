// SPDX-License-Identifier: Apache-2.0
// The words behind `verbena`: which of its commands is meant.
#pragma once

namespace verbena::cli {

// As main() has them; answers the exit status.
[[nodiscard]] int run_command_line(int count, char** arguments);

}  // namespace verbena::cli
