// SPDX-License-Identifier: Apache-2.0
// Memory of the process without a medium: the store ends with the process.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "medium/anonymous_memory.h"
#include "medium/backend.h"

namespace verbena::medium {

struct MallocOptions {
  size_t block_bytes = size_t{8} << 20;
  uint32_t capacity = 0;  // blocks
  AnonymousOptions memory{};
};

[[nodiscard]] Result<std::unique_ptr<Backend>> make_malloc_backend(const MallocOptions& options);

}  // namespace verbena::medium
