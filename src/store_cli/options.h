// SPDX-License-Identifier: Apache-2.0
// What the store's commands have in common on the command line: which store, how it is opened, how
// results are shown; and opening it so.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/command.h"
#include "store/directory.h"
#include "store_cli/object_name.h"
#include "store_cli/report.h"

namespace verbena::store_cli {

// As given; checked when the store is opened.
struct StoreChoice {
  std::vector<std::string> folders;
  std::string kind = "mapped";
  std::string sync = "end";
  std::string capacity;
  double wait_seconds = 1;  // for a store that is in use
};

void add_data_option(cli::Command& to, StoreChoice& choice);    // --data, --wait
void add_folder_option(cli::Command& to, StoreChoice& choice);  // --data
// DIR... instead of --data, for commands on a store as a whole.
void add_folder_words(cli::Command& to, StoreChoice& choice);
void add_wait_option(cli::Command& to, StoreChoice& choice);
void add_writing_options(cli::Command& to, StoreChoice& choice);  // --capacity, --kind, --sync
enum class Shows : uint8_t { kNothing, kSizes };
void add_speech_options(cli::Command& to, Speech& speech, Shows shows);
void add_progress_option(cli::Command& to, Speech& speech);

// As given, or those of the environment; none: no_store_given().
[[nodiscard]] std::vector<std::string> folders_of(const StoreChoice& choice);
void no_store_given(Report& report);

// What is wrong with it before a store is looked for; that goes to `report`.
[[nodiscard]] bool check_choice(const StoreChoice& choice, Report& report);

enum class Need : uint8_t {
  kRead,     // objects one by one: costs the same however many there are
  kReadAll,  // what needs all of them: space, and which chunks are shared
  kWrite,
  kCreate,  // to write; made if the folders are missing or empty
};

[[nodiscard]] constexpr bool only_reads(Need need) {
  return need == Need::kRead || need == Need::kReadAll;
}

struct OpenedStore {
  store::DirectoryStore directory;
  bool created = false;
  store::OpenReport report{};
};
// Without a value, the reason has been told to `report`. What killed puts left is removed if there
// is the need to write.
[[nodiscard]] std::optional<OpenedStore> open_store(const StoreChoice& choice, Need need,
                                                    Report& report);
// Everything durable; an error of that goes to `report`.
void close_store(OpenedStore& opened, Report& report);

// The object of this name or id; an error goes to `report`.
[[nodiscard]] std::optional<store::ObjectInfo> find_object(const store::Objects& store,
                                                           const std::string& text, Report& report);
// The same without one, for objects that may be missing; nothing and an error are apart.
[[nodiscard]] store::Result<std::optional<store::ObjectInfo>> look_up(const store::Objects& store,
                                                                      const ObjectName& object);

}  // namespace verbena::store_cli
