// SPDX-License-Identifier: Apache-2.0
// Memory of the process as a buffer for files: for NICs, for which the kernel cannot pin page-cache
// mappings. fence() writes the flushed ranges, bypassing the page cache where possible.
#pragma once

#include <memory>

#include "medium/anonymous_memory.h"
#include "medium/backend.h"
#include "medium/block_files.h"

namespace verbena::medium {

struct StagedOptions {
  FileOptions files;
  AnonymousOptions memory{};
  bool io_uring = true;  // where the system allows it
};

[[nodiscard]] Result<std::unique_ptr<Backend>> open_staged_backend(const StagedOptions& options);

}  // namespace verbena::medium
