// SPDX-License-Identifier: Apache-2.0
// Writes an object, or a part of it, to a file or a pipe, verified: for all commands that do.
#pragma once

#include <cstdint>
#include <string>

#include "store/objects.h"
#include "store_cli/output_file.h"
#include "store_cli/put_object.h"
#include "store_cli/report.h"

namespace verbena::store_cli {

struct GetRequest {
  std::string shown = {};  // as the user calls the object
  store::ObjectInfo object = {};
  uint64_t begin = 0;
  uint64_t end = 0;
  bool keep_going = false;        // where it is damaged, with zeros
  bool ends_with_reader = false;  // of a pipe: by SIGPIPE, without a word
};

struct GetResult {
  uint64_t bytes = 0;
  uint64_t zeroed = 0;
  bool whole = false;  // all that was asked for has been written
};

// What the range takes in a file.
[[nodiscard]] OutputFile::Extent extent_of(const GetRequest& request);
// Without finishing the file. What goes wrong is told to `report`.
[[nodiscard]] GetResult get_object(const store::Objects& store, const GetRequest& request,
                                   OutputFile& file, Transferred& transferred, Report& report);

}  // namespace verbena::store_cli
