// SPDX-License-Identifier: Apache-2.0
// The names in a directory, or why they cannot be read.
#pragma once

#include <string>
#include <system_error>
#include <vector>

#include "base/result.h"

namespace verbena::store {

// In no order. An error is never an empty or incomplete list: a store would be taken for none.
[[nodiscard]] verbena::Result<std::vector<std::string>, std::error_code> names_in(
    const std::string& folder);

}  // namespace verbena::store
