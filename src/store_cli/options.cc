// SPDX-License-Identifier: Apache-2.0
#include "store_cli/options.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include <fmt/format.h>

#include "store_cli/directory_options.h"

namespace verbena::store_cli {
namespace {

constexpr const char* kDataVariable = "VERBENA_DATA";

}  // namespace

std::vector<std::string> folders_of(const StoreChoice& choice) {
  if (!choice.folders.empty()) return choice.folders;
  const char* const variable = std::getenv(kDataVariable);
  std::vector<std::string> folders;
  for (std::string_view left = variable == nullptr ? "" : variable; !left.empty();) {
    const size_t colon = std::min(left.find(':'), left.size());
    if (colon > 0) folders.emplace_back(left.substr(0, colon));
    left.remove_prefix(std::min(colon + 1, left.size()));
  }
  return folders;
}

Place place_of(const StoreChoice& choice) {
  if (!choice.folders.empty()) return Place::kDirectory;
  if (!choice.server.server.empty()) return Place::kServer;
  const bool directory = !folders_of(choice).empty();
  const bool server = !server_of_environment().empty();
  if (directory && server) return Place::kBoth;
  if (directory) return Place::kDirectory;
  return server ? Place::kServer : Place::kNone;
}

void add_store_options(cli::Command& to, StoreChoice& choice) {
  add_data_option(to, choice);
  add_server_options(to, choice.server);
  to.exclude("--data", "--server").exclude("--wait", "--server");
  for (const char* const option : {"--timeout", "--secret-file", "--device", "--fabric"}) {
    to.exclude("--data", option);
  }
}

void add_data_option(cli::Command& to, StoreChoice& choice) {
  add_folder_option(to, choice);
  to.option("--wait", choice.wait_seconds, "SECONDS",
            "time to wait for a store in use by another process (default 1)");
}

void add_folder_option(cli::Command& to, StoreChoice& choice) {
  to.list("-d,--data", choice.folders, "DIR",
          "directory of the store; may be repeated for one store in\n"
          "several directories, one per NUMA node ($VERBENA_DATA)");
}

void add_folder_words(cli::Command& to, StoreChoice& choice) {
  to.optional_words("DIR", "[DIR...]", choice.folders,
                    "the directories of one store, as an alternative to --data");
}

void refuse_server(cli::Command& to, const char* when) {
  to.refuse("-s,--server", "HOST[:PORT]",
            fmt::format("this command works on the files of a store: use --data DIR on the host of "
                        "the server, {}",
                        when));
}

void add_writing_options(cli::Command& to, StoreChoice& choice) {
  to.option("--sync", choice.sync, "WHEN",
            "when data is made durable: end, when the command ends;\n"
            "each, also after each piece (default end)")
      .option("--kind", choice.kind, "HOW",
              "how files are accessed: mapped, as mapped memory; staged,\n"
              "through buffers and io_uring (default mapped)")
      .option("--capacity", choice.capacity, "SIZE",
              "maximum size of the files of the store, such as 10G or\n"
              "512MiB (default: until the disk is full)");
  to.exclude("--kind", "--server").exclude("--capacity", "--server");
  to.choices("--sync", {"end", "each"}).choices("--kind", {"mapped", "staged"});
}

void add_speech_options(cli::Command& to, Speech& speech, Shows shows) {
  to.flag("--json", speech.json, "print one JSON document on standard output");
  if (shows == Shows::kSizes) to.flag("--bytes", speech.bytes, "print sizes in bytes");
  to.flag("-q,--quiet", speech.quiet, "print errors only");
}

void add_progress_option(cli::Command& to, Speech& speech) {
  to.flag("--no-progress", speech.no_progress, "print no progress bar on a terminal");
}

void no_directory_given(Report& report) {
  report.error(kUsage, "invalid",
               server_of_environment().empty()
                   ? "no store given: use --data DIR or set VERBENA_DATA"
                   : "no store given: this command works on its files, not through a server "
                     "(VERBENA_SERVER); use --data DIR on the host of the server");
}

bool check_folders(const StoreChoice& choice, Report& report) {
  const std::vector<std::string> folders = folders_of(choice);
  if (folders.empty()) {
    no_directory_given(report);
    return false;
  }
  const auto options = directory_options(choice, folders.size());
  if (!options) report.error(kUsage, "invalid", options.error());
  return options.has_value();
}

bool check_choice(const StoreChoice& choice, Report& report) {
  const auto wrong = [&](const char* what) {
    report.error(kUsage, "invalid", what);
    return false;
  };
  switch (place_of(choice)) {
    case Place::kNone:
      return wrong(
          "no store given: use --data DIR or --server HOST, or set VERBENA_DATA or VERBENA_SERVER");
    case Place::kBoth:
      return wrong("VERBENA_DATA and VERBENA_SERVER are both set: use --data or --server");
    case Place::kDirectory: return check_folders(choice, report);
    case Place::kServer:    break;
  }
  const StoreChoice usual;
  if (choice.sync != usual.sync || choice.kind != usual.kind || !choice.capacity.empty()) {
    return wrong(
        "--sync each, --kind and --capacity are for a store in a directory, not on a server");
  }
  return check_server(choice.server, report);
}

}  // namespace verbena::store_cli
