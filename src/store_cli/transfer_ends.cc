// SPDX-License-Identifier: Apache-2.0
#include "store_cli/transfer_ends.h"

#include "cli/installation.h"
#include "fabric/verbs_fabric.h"
#include "store_cli/server_choice.h"
#include "transfer/path.h"
#include "transfer/replies.h"

namespace verbena::store_cli {

void add_transfer_options(cli::Command& to, TransferChoice& choice) {
  to.option("--secret-file", choice.secret_file, "FILE",
            "file with a secret that both ends must have ($VERBENA_SECRET_FILE)")
      .option("--device", choice.device, "NAME",
              "use this RDMA device of the system (default: the built-in one)")
      .option("--idle-timeout", choice.idle_seconds, "SECONDS",
              "end a connection whose other end is silent for so long (default 60; 0: never)");
}

std::optional<std::string> transfer_secret(const TransferChoice& choice, Report& report) {
  ServerChoice server;
  server.secret_file = choice.secret_file;
  return secret_of(server, report);
}

std::optional<transfer::LivenessOptions> transfer_liveness(const TransferChoice& choice,
                                                           Report& report) {
  constexpr double kLongest = 1e6;
  constexpr auto kShortest =
      static_cast<double>(transfer::kMinIdleTimeout) / static_cast<double>(kSecond);
  const double seconds = choice.idle_seconds;
  if (seconds != 0 && !(seconds >= kShortest && seconds <= kLongest)) {
    report.error(kUsage, "invalid", "--idle-timeout: 5 to 1000000 seconds, or 0");
    return std::nullopt;
  }
  return transfer::LivenessOptions{
      .idle_timeout = static_cast<Duration>(seconds * static_cast<double>(kSecond))};
}

std::unique_ptr<fabric::Fabric> transfer_fabric(const TransferChoice& choice, Report& report) {
  fabric::VerbsOptions options;
  options.device = choice.device;
  options.message_bytes = transfer::kMaxReplyBytes;
  options.receives = 256;
  options.sends = 256;
  options.part_keys = 0;
  if (choice.device.empty()) {
    const auto libraries = cli::library_directory();
    if (!libraries) {
      report.error(kNotDone, "installation", libraries.error());
      return nullptr;
    }
    options.libraries = *libraries;
  }
  auto fabric = fabric::open_verbs_fabric(options);
  if (fabric) return std::move(*fabric);
  report.error(kNotDone, "device", "the RDMA device cannot be used: " + fabric.error());
  return nullptr;
}

void show_progress(const transfer::Progress& progress, ProgressBar& bar) {
  if (!bar.due()) return;
  const std::string name = transfer::shown(progress.file.path);
  bar.update(progress.done_bytes, {name, progress.file.done_bytes, progress.file.all_bytes});
}

}  // namespace verbena::store_cli
