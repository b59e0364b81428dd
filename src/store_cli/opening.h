// SPDX-License-Identifier: Apache-2.0
// Opens the store that the command line names, in a directory or on a server.
#pragma once

#include <memory>
#include <optional>

#include "store/directory.h"
#include "store_cli/options.h"
#include "store_cli/report.h"

namespace verbena::store_cli {

enum class Need : uint8_t {
  kRead,     // objects one by one: costs the same however many there are
  kReadAll,  // what needs all of them: space, and which chunks are shared
  kWrite,
  kCreate,  // to write; made if the folders are missing or empty
};

[[nodiscard]] constexpr bool only_reads(Need need) {
  return need == Need::kRead || need == Need::kReadAll;
}

// In a directory.
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

// Wherever it is. What killed puts left with a server is the server's to remove: others may be
// putting.
struct OpenedObjects {
  std::optional<OpenedStore> local;
  std::unique_ptr<store::Objects> remote;  // if it is not local

  [[nodiscard]] store::Objects& objects() { return local ? local->directory.store() : *remote; }
  [[nodiscard]] bool created() const { return local && local->created; }
};
[[nodiscard]] std::optional<OpenedObjects> open_objects(const StoreChoice& choice, Need need,
                                                        Report& report);
void close_objects(OpenedObjects& opened, Report& report);

}  // namespace verbena::store_cli
