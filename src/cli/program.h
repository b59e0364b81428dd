// SPDX-License-Identifier: Apache-2.0
// The program to be run: where it is, and what can be seen from its file about whether the drop-in
// libraries will reach it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace verbena::cli {

// Exit statuses of shells, env(1) and others; "itself" is what fails before there is a program.
inline constexpr int kItselfFailed = 125;
inline constexpr int kNotExecutable = 126;
inline constexpr int kNotFound = 127;

struct NoProgram {
  int status = kNotFound;
  std::string what;
};

// A name without '/' is looked for in the directories of `path` (PATH), as execvp does.
[[nodiscard]] Result<std::string, NoProgram> find_program(const std::string& name,
                                                          std::string_view path);

// Sentences that say why the program cannot be served; none if nothing is to be seen. It may still
// start others that can.
[[nodiscard]] std::vector<std::string> obstacles(const std::string& file);

}  // namespace verbena::cli
