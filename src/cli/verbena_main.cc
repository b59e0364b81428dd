// SPDX-License-Identifier: Apache-2.0
// The `verbena` command.
#include "cli/command_line.h"
#include "cli/standard_files.h"

int main(int count, char** arguments) {
  verbena::cli::guard_standard_files();
  return verbena::cli::run_command_line(count, arguments);
}
