// SPDX-License-Identifier: Apache-2.0
// Error messages of this folder.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"
#include "medium/backend.h"

namespace verbena::medium {

[[nodiscard]] std::string size_text(uint64_t bytes);  // "64 MiB", "4.5 GiB", "100 bytes"
// `what` failed with this errno: "mapping x: Cannot allocate memory".
[[nodiscard]] std::unexpected<Error> system_error(Code code, const std::string& what, int error);
// Registering this much memory was refused: what the limit is, and how to raise it.
[[nodiscard]] std::string memlock_advice(uint64_t bytes);

}  // namespace verbena::medium
