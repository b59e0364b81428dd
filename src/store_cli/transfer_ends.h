// SPDX-License-Identifier: Apache-2.0
// What `verbena send` and `verbena receive` have in common.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "cli/command.h"
#include "fabric/fabric.h"
#include "store_cli/progress.h"
#include "store_cli/report.h"
#include "transfer/liveness.h"
#include "transfer/progress.h"

namespace verbena::store_cli {

struct TransferChoice {
  std::string device;
  std::string secret_file;
  double idle_seconds = 60;
};
// --secret-file, --device, --idle-timeout
void add_transfer_options(cli::Command& to, TransferChoice& choice);

// The secret, "" if none is wanted. Nothing: `report` knows why.
[[nodiscard]] std::optional<std::string> transfer_secret(const TransferChoice& choice,
                                                         Report& report);
// Nothing: `report` knows why.
[[nodiscard]] std::optional<transfer::LivenessOptions> transfer_liveness(
    const TransferChoice& choice, Report& report);
// nullptr: `report` knows why.
[[nodiscard]] std::unique_ptr<fabric::Fabric> transfer_fabric(const TransferChoice& choice,
                                                              Report& report);

// With the file it is at.
void show_progress(const transfer::Progress& progress, ProgressBar& bar);

}  // namespace verbena::store_cli
