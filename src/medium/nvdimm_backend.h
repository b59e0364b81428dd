// SPDX-License-Identifier: Apache-2.0
// Files mapped into memory through libpmem2: on persistent memory the medium itself, flushed by
// cache lines; elsewhere the page cache, flushed by msync.
//
// What a disk cannot read, or what is cut off a file while it is mapped, reads as zeros, and is
// unreadable(): see mapped_guard.h. A device that reads the memory by its own means gets an error
// of its own instead.
#pragma once

#include <memory>

#include "medium/backend.h"
#include "medium/block_files.h"

namespace verbena::medium {

struct NvdimmOptions {
  FileOptions files;
  Registrar* registrar = nullptr;  // told of each file's mapping; outlives the backend
  // The device is the built-in one, which writes to any memory of the process.
  bool built_in_device = false;
};

// properties() of a folder with no files in it know nothing of its medium before the first block.
[[nodiscard]] Result<std::unique_ptr<Backend>> open_nvdimm_backend(const NvdimmOptions& options);

}  // namespace verbena::medium
