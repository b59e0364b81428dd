// SPDX-License-Identifier: Apache-2.0
// What is said about a command line that makes no sense, and to those who ask for help.
#pragma once

#include <string>

namespace verbena::cli {

// The exit status of a command line that makes no sense, unless a command has another.
inline constexpr int kUsage = 2;

// Says it on the standard error, and where to read on; answers `status`. `command` may be empty.
[[nodiscard]] int usage(const std::string& command, const std::string& what, int status);
// On the standard output; answers the exit status.
[[nodiscard]] int print_help(const std::string& text);

}  // namespace verbena::cli
