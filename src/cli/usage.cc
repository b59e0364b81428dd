// SPDX-License-Identifier: Apache-2.0
#include "cli/usage.h"

#include <cstdio>

namespace verbena::cli {

int usage(const std::string& command, const std::string& what, int status) {
  const std::string name = command.empty() ? "verbena" : "verbena " + command;
  std::fprintf(stderr, "%s: %s\nSee %s --help.\n", name.c_str(), what.c_str(), name.c_str());
  return status;
}

int print_help(const std::string& text) {
  if (std::fputs(text.c_str(), stdout) >= 0 && std::fflush(stdout) == 0) return 0;
  std::perror("verbena: cannot write to standard output");
  return 1;
}

}  // namespace verbena::cli
