// SPDX-License-Identifier: Apache-2.0
// libverbena-store.so, which bin/verbena loads for the commands on a store.
#include <cstdio>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "store_cli/commands.h"
#include "store_cli/complete.h"

// What bin/verbena calls: cli::StoreMain.
extern "C" __attribute__((visibility("default"))) int verbena_store_main(int count,
                                                                         char** arguments);
int verbena_store_main(int count, char** arguments) {
  using namespace verbena::store_cli;
  const std::vector<std::string> given(arguments + 1, arguments + count);
  const bool completes = given.front() == verbena::cli::kCompleteCommand;
  const auto words = std::span(given).subspan(completes ? 1 : 0);
  for (const auto make :
       {put_command,    get_command,     ls_command,       stat_command,    rm_command,
        cp_command,     mv_command,      truncate_command, cat_command,     du_command,
        df_command,     sync_command,    flush_command,    evict_command,   range_command,
        verify_command, inspect_command, scrub_command,    compact_command, salvage_command,
        serve_command,  ping_command,    bench_command,    send_command,    receive_command}) {
    verbena::cli::Command command = make();
    if (command.name() != words.front()) continue;
    // The caller is C: nothing may be thrown through it.
    try {
      return completes ? complete(command, words.subspan(1)) : command.run(words.subspan(1));
    } catch (const std::exception& error) {
      std::fprintf(stderr, "verbena %s: %s\n", words.front().c_str(), error.what());
      return 1;
    }
  }
  return 1;  // bin/verbena knows others than we do
}
