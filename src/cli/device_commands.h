// SPDX-License-Identifier: Apache-2.0
// `verbena run`, `devices` and `env` on the command line.
#pragma once

#include <string>
#include <vector>

#include "cli/choices.h"
#include "cli/command.h"

namespace verbena::cli {

struct DeviceOptions {
  Choices choices;
  std::string view = "preload";
  std::string shell = "sh";
  bool json = false;
  std::vector<std::string> program;
};

// They write what they are given to `options`, which outlives them.
[[nodiscard]] std::vector<Command> device_commands(DeviceOptions& options);

}  // namespace verbena::cli
