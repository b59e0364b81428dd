// SPDX-License-Identifier: Apache-2.0
// The options by which a command reaches a server, and the variables that stand in for them.
#pragma once

#include <optional>
#include <string>

#include "cli/command.h"
#include "client/remote.h"
#include "store_cli/report.h"

namespace verbena::store_cli {

// As given.
struct ServerChoice {
  std::string server;  // HOST[:PORT]
  std::string device;
  std::string fabric;
  std::string secret_file;
  double timeout_seconds = 30;
};

// --server, --timeout, --secret-file, --device, --fabric
void add_server_options(cli::Command& to, ServerChoice& choice);

// $VERBENA_SERVER; empty: not set.
[[nodiscard]] std::string server_of_environment();
// As given, or that of the environment; empty: none.
[[nodiscard]] std::string server_of(const ServerChoice& choice);

// What is wrong with it before a server is looked for; that goes to `report`.
[[nodiscard]] bool check_server(const ServerChoice& choice, Report& report);
// The secret, or "" if none is wanted. Nothing: `report` knows why.
[[nodiscard]] std::optional<std::string> secret_of(const ServerChoice& choice, Report& report);
// To connect with. Nothing: `report` knows why.
[[nodiscard]] std::optional<client::RemoteOptions> remote_options(const ServerChoice& choice,
                                                                  Report& report);

}  // namespace verbena::store_cli
