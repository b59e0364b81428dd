// SPDX-License-Identifier: Apache-2.0
// Stores what an input holds as an object, whole or not at all: for all commands that do.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "store/objects.h"
#include "store_cli/input_file.h"
#include "store_cli/object_name.h"
#include "store_cli/progress.h"
#include "store_cli/report.h"

namespace verbena::store_cli {

struct PutRequest {
  std::string shown = {};  // as the user calls the object
  ObjectName object = {};
  std::string name = {};  // also to be given to one that is called by its id
  uint64_t offset = 0;    // with `part`
  bool part = false;      // what is around it stays
  bool append = false;    // behind what is there
  bool only_new = false;
};

struct PutResult {
  store::ObjectInfo object;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  bool replaced = false;
};

// A progress bar over several transfers.
struct Transferred {
  ProgressBar& bar;
  uint64_t bytes = 0;  // of those before
};

// Nothing: not done, and `report` knows why; what was there is unchanged.
[[nodiscard]] std::optional<PutResult> put_object(store::Objects& store, const PutRequest& request,
                                                  InputFile& input, Transferred& transferred,
                                                  Report& report);

}  // namespace verbena::store_cli
