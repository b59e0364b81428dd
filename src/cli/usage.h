// SPDX-License-Identifier: Apache-2.0
// What is said about a command line that makes no sense.
#pragma once

#include <string>

namespace verbena::cli {

// Says it on the standard error, and where to read on; answers `status`. `command` may be empty.
[[nodiscard]] int usage(const std::string& command, const std::string& what, int status);

}  // namespace verbena::cli
