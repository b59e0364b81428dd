// SPDX-License-Identifier: Apache-2.0
// The commands on a store, one function each.
#pragma once

#include <string_view>

#include "cli/command.h"

namespace verbena::store_cli {

[[nodiscard]] cli::Command put_command();
[[nodiscard]] cli::Command get_command();
[[nodiscard]] cli::Command ls_command();
[[nodiscard]] cli::Command stat_command();
[[nodiscard]] cli::Command rm_command();
[[nodiscard]] cli::Command cp_command();
[[nodiscard]] cli::Command mv_command();
[[nodiscard]] cli::Command truncate_command();
[[nodiscard]] cli::Command cat_command();
[[nodiscard]] cli::Command du_command();
[[nodiscard]] cli::Command df_command();
[[nodiscard]] cli::Command sync_command();
[[nodiscard]] cli::Command flush_command();
[[nodiscard]] cli::Command evict_command();
[[nodiscard]] cli::Command range_command();
[[nodiscard]] cli::Command verify_command();
[[nodiscard]] cli::Command inspect_command();
[[nodiscard]] cli::Command scrub_command();
[[nodiscard]] cli::Command compact_command();
[[nodiscard]] cli::Command salvage_command();
[[nodiscard]] cli::Command serve_command();
[[nodiscard]] cli::Command ping_command();
[[nodiscard]] cli::Command bench_command();
[[nodiscard]] cli::Command send_command();
[[nodiscard]] cli::Command receive_command();

// One of this name; `about` is what its help says behind the summary in the list of commands.
[[nodiscard]] cli::Command describe(std::string_view name, std::string_view about);

}  // namespace verbena::store_cli
