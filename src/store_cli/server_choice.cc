// SPDX-License-Identifier: Apache-2.0
#include "store_cli/server_choice.h"

#include <cstdlib>

#include <fmt/format.h>

#include "base/secret_file.h"
#include "cli/installation.h"
#include "fabric/fabric_choice.h"
#include "store_cli/server_address.h"

namespace verbena::store_cli {
namespace {

constexpr double kLongestTimeoutSeconds = 86'400;

[[nodiscard]] std::string variable_or_empty(const char* name) {
  const char* const value = std::getenv(name);
  return value == nullptr ? "" : value;
}

}  // namespace

std::optional<std::string> secret_of(const ServerChoice& choice, Report& report) {
  const std::string path =
      choice.secret_file.empty() ? variable_or_empty("VERBENA_SECRET_FILE") : choice.secret_file;
  if (path.empty()) return "";
  auto file = read_secret(path);
  if (!file) {
    report.error(kNotDone, "io", file.error());
    return std::nullopt;
  }
  if (file->exposed) {
    report.note(path + ": other users can read this secret; make it readable for you only");
  }
  return std::move(file->secret);
}

void add_server_options(cli::Command& to, ServerChoice& choice) {
  to.option("-s,--server", choice.server, "HOST[:PORT]",
            "the server that has the store; the default port is 7471, an\n"
            "IPv6 address is in brackets ($VERBENA_SERVER)")
      .option("--timeout", choice.timeout_seconds, "SECONDS",
              "time that the server has to answer a request (default 30)")
      .option("--secret-file", choice.secret_file, "FILE",
              "file with the secret that the server has ($VERBENA_SECRET_FILE)")
      .option("--device", choice.device, "NAME",
              "use this RDMA device of the system (default: the built-in one)")
      .option("--fabric", choice.fabric, "FABRIC",
              "verbs, ofi or ofi:PROVIDER (default: the best that the server\n"
              "has, too)");
}

std::string server_of_environment() { return variable_or_empty("VERBENA_SERVER"); }

std::string server_of(const ServerChoice& choice) {
  return choice.server.empty() ? server_of_environment() : choice.server;
}

bool check_server(const ServerChoice& choice, Report& report) {
  if (const auto address = parse_server(server_of(choice)); !address) {
    report.error(kUsage, "invalid",
                 (choice.server.empty() ? "VERBENA_SERVER: " : "--server: ") + address.error());
    return false;
  }
  if (!(choice.timeout_seconds > 0 && choice.timeout_seconds <= kLongestTimeoutSeconds)) {
    report.error(kUsage, "invalid",
                 fmt::format("--timeout: {} is not a time above 0 and up to {} seconds",
                             choice.timeout_seconds, kLongestTimeoutSeconds));
    return false;
  }
  if (!choice.fabric.empty()) {
    const auto fabric = fabric::parse_fabric(choice.fabric);
    if (!fabric) {
      report.error(kUsage, "invalid", "--fabric: " + fabric.error());
      return false;
    }
    if (!fabric->provider.empty() && !choice.device.empty()) {
      report.error(kUsage, "invalid", "--device is for the fabric verbs");
      return false;
    }
  }
  return true;
}

std::optional<client::RemoteOptions> remote_options(const ServerChoice& choice, Report& report) {
  if (!check_server(choice, report)) return std::nullopt;
  client::RemoteOptions options;
  auto address = parse_server(server_of(choice));
  options.host = std::move(address->host);
  options.port = address->port;
  options.timeout = static_cast<Duration>(choice.timeout_seconds * static_cast<double>(kSecond));
  auto secret = secret_of(choice, report);
  if (!secret) return std::nullopt;
  options.secret = std::move(*secret);
  options.device = choice.device;
  options.fabric = choice.fabric;
  if (!options.device.empty()) return options;
  auto libraries = cli::library_directory();
  if (!libraries) {
    report.error(kNotDone, "io", libraries.error());
    return std::nullopt;
  }
  options.libraries = std::move(*libraries);
  return options;
}

}  // namespace verbena::store_cli
