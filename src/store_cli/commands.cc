// SPDX-License-Identifier: Apache-2.0
#include "store_cli/commands.h"

#include <algorithm>
#include <string>

#include "cli/store_commands.h"

namespace verbena::store_cli {

cli::Command describe(std::string_view name, std::string_view about) {
  const auto* const known = std::ranges::find(cli::kStoreCommands, name, &cli::StoreCommand::name);
  std::string text(known->summary);
  cli::Command command(std::string(name), text.append("\n\n").append(about));
  command.footer(
      "Exit status: 0 success, 1 failure, 2 usage error, 3 no such object, 4 damaged, 5 full, 6 in "
      "use,\n"
      "7 no store, 8 already exists, 9 unknown format, 10 server unreachable. See "
      "verbena-store(1).");
  return command;
}

}  // namespace verbena::store_cli
