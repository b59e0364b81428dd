// SPDX-License-Identifier: Apache-2.0
// Memory that processes share by its descriptor, whose size nobody can change any more: no access
// of one can be made to fault by another.
#pragma once

#include <cstddef>
#include <optional>

#include "base/unique_fd.h"

namespace verbena::link {

// Zeroed; `name` is for people reading /proc. Not valid: errno says why.
[[nodiscard]] UniqueFd make_sealed_memory(const char* name, size_t bytes);
// The size of what another process handed out; none if it is something else.
[[nodiscard]] std::optional<size_t> sealed_size(int fd);

}  // namespace verbena::link
