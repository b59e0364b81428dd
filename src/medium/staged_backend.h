// SPDX-License-Identifier: Apache-2.0
// Memory of the process in front of files: for real network devices, which cannot be let loose on
// page-cache mappings. fence() writes what was flushed, past the page cache where it can be.
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
