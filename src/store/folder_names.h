// SPDX-License-Identifier: Apache-2.0
// The names in a directory, or why they cannot be read.
#pragma once

#include <string>
#include <vector>

#include "store/error.h"

namespace verbena::store {

// In no order; none if there is no such directory. An error is never an empty or incomplete list: a
// store would be taken for none.
[[nodiscard]] Result<std::vector<std::string>> names_in(const std::string& folder);

}  // namespace verbena::store
