// SPDX-License-Identifier: Apache-2.0
// The options of a command for a store in a directory, as the store takes them.
#pragma once

#include <string>

#include "store/directory.h"
#include "store_cli/options.h"

namespace verbena::store_cli {

// For so many directories. An error is what is wrong with them.
[[nodiscard]] Result<store::DirectoryOptions, std::string> directory_options(
    const StoreChoice& choice, size_t folders);
// Whether there is room for anything in files of capacity_bytes.
[[nodiscard]] Result<void, std::string> check_capacity(const store::DirectoryOptions& options,
                                                       size_t folders);

}  // namespace verbena::store_cli
