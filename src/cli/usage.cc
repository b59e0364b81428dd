// SPDX-License-Identifier: Apache-2.0
#include "cli/usage.h"

#include <cstdio>

namespace verbena::cli {

int usage(const std::string& command, const std::string& what, int status) {
  const std::string name = command.empty() ? "verbena" : "verbena " + command;
  std::fprintf(stderr, "%s: %s\nSee %s --help.\n", name.c_str(), what.c_str(), name.c_str());
  return status;
}

}  // namespace verbena::cli
