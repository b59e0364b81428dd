// SPDX-License-Identifier: Apache-2.0
// The commands on a store in a folder: one function each adds it to the command line.
#pragma once

#include "cli/command.h"

namespace verbena::cli {

[[nodiscard]] Command add_put(CLI::App& to);
[[nodiscard]] Command add_get(CLI::App& to);
[[nodiscard]] Command add_ls(CLI::App& to);
[[nodiscard]] Command add_stat(CLI::App& to);
[[nodiscard]] Command add_rm(CLI::App& to);
[[nodiscard]] Command add_cp(CLI::App& to);
[[nodiscard]] Command add_mv(CLI::App& to);
[[nodiscard]] Command add_inspect(CLI::App& to);
[[nodiscard]] Command add_scrub(CLI::App& to);
[[nodiscard]] Command add_salvage(CLI::App& to);

}  // namespace verbena::cli
