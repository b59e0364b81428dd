// SPDX-License-Identifier: Apache-2.0
// What the store's commands have in common on the command line: which store, how it is opened, and
// how results are shown.
#pragma once

#include <string>
#include <vector>

#include "cli/command.h"
#include "store_cli/report.h"
#include "store_cli/server_choice.h"

namespace verbena::store_cli {

// As given; checked when the store is opened.
struct StoreChoice {
  std::vector<std::string> folders;
  ServerChoice server;
  std::string kind = "mapped";
  std::string sync = "end";
  std::string capacity;
  double wait_seconds = 1;  // for a store that is in use
};

// Of commands on objects, wherever the store is: --data or --server, and what belongs to them.
void add_store_options(cli::Command& to, StoreChoice& choice);
// For them, --capacity, --kind, --sync.
void add_writing_options(cli::Command& to, StoreChoice& choice);

// Of commands on the files of a store: --data, --wait.
void add_data_option(cli::Command& to, StoreChoice& choice);
void add_folder_option(cli::Command& to, StoreChoice& choice);  // --data
// DIR... instead of --data, for commands on a store as a whole.
void add_folder_words(cli::Command& to, StoreChoice& choice);
// --server is answered with what to do instead; `when` it can be done, "when the server has ended".
void refuse_server(cli::Command& to, const char* when);

enum class Shows : uint8_t { kNothing, kSizes };
void add_speech_options(cli::Command& to, Speech& speech, Shows shows);
void add_progress_option(cli::Command& to, Speech& speech);

// What was given on the command line, or else is in the environment.
enum class Place : uint8_t { kNone, kDirectory, kServer, kBoth };
[[nodiscard]] Place place_of(const StoreChoice& choice);

// The directories, as given, or those of the environment; none: no_directory_given().
[[nodiscard]] std::vector<std::string> folders_of(const StoreChoice& choice);
void no_directory_given(Report& report);

// Whether the options make sense together, before a store is looked for; what is wrong goes to
// `report`.
[[nodiscard]] bool check_choice(const StoreChoice& choice, Report& report);
// The same for commands that take no server.
[[nodiscard]] bool check_folders(const StoreChoice& choice, Report& report);

}  // namespace verbena::store_cli
