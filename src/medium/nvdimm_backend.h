// SPDX-License-Identifier: Apache-2.0
// Files mapped into memory through libpmem2: on persistent memory the medium itself, flushed by
// cache lines; elsewhere the page cache, flushed by msync.
//
// A file that is cut short while it is mapped, or a disk that cannot be read, ends the process with
// SIGBUS: open() checks what can be checked before.
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
