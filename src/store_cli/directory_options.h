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

}  // namespace verbena::store_cli
