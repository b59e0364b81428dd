// SPDX-License-Identifier: Apache-2.0
// `verbena put -r` and `verbena put --batch`: many files in one process.
#pragma once

#include <string>

#include "store_cli/options.h"

namespace verbena::store_cli {

struct PutManyOptions {
  StoreChoice store;
  Speech speech;
  std::string folder;
  std::string prefix;
  bool only_new = false;
};

// The files below the folder, as objects of their relative names behind the prefix.
[[nodiscard]] int put_tree(const PutManyOptions& options);
// Lines "FILE<TAB>OBJECT" of the standard input.
[[nodiscard]] int put_batch(const PutManyOptions& options);

}  // namespace verbena::store_cli
