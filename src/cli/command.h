// SPDX-License-Identifier: Apache-2.0
// A command of `verbena`: its options, and what it does. The device's and the store's are apart.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <string>
#include <vector>

namespace verbena::cli {

struct Command {
  CLI::App* app = nullptr;
  // Answers the exit status. Gets what stood behind "--", if `program` is set.
  std::function<int(const std::vector<std::string>&)> run;
  bool program = false;  // what stands behind "--" is another program's
  int usage_status = 2;
};

void add_device_commands(CLI::App& to, std::vector<Command>& commands);
void add_store_commands(CLI::App& to, std::vector<Command>& commands);

}  // namespace verbena::cli
