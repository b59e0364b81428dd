// SPDX-License-Identifier: Apache-2.0
// `verbena env`: what `verbena run` sets, as commands for a shell.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "cli/choices.h"

namespace verbena::cli {

enum class Shell : uint8_t { kPosix, kFish, kCsh };
[[nodiscard]] Result<Shell, std::string> shell_named(std::string_view name);

// One line for each variable that differs.
[[nodiscard]] std::string assignments(const Environment& before, const Environment& after,
                                      Shell shell);

}  // namespace verbena::cli
