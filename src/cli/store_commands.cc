// SPDX-License-Identifier: Apache-2.0
#include "cli/store_commands.h"

namespace verbena::cli {

void add_store_commands(CLI::App& to, std::vector<Command>& commands) {
  for (const auto add : {add_put, add_get, add_ls, add_stat, add_rm, add_cp, add_mv, add_inspect,
                         add_scrub, add_salvage}) {
    commands.push_back(add(to));
    commands.back().app->group("Objects in a folder");
    commands.back().app->footer(
        "\nExit status: 0 done, 1 not done, 2 usage, 3 no such object, 4 damaged, 5 full, 6 in "
        "use,\n"
        "7 no store, 8 exists already, 9 unknown format. See verbena-store(1).");
  }
}

}  // namespace verbena::cli
