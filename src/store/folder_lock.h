// SPDX-License-Identifier: Apache-2.0
// Who may use a folder: one process that writes, or several that read. The lock is the kernel's: it
// goes with the process, however that ends.
#pragma once

#include <string>

#include "base/unique_fd.h"
#include "store/error.h"

namespace verbena::store {

class FolderLock {
 public:
  enum class Mode : uint8_t { kRead, kWrite };
  // kInUse, with the owner's process id in `what` as far as it is known.
  [[nodiscard]] static Result<FolderLock> take(const std::string& folder, Mode mode);

 private:
  explicit FolderLock(UniqueFd file) : file_(std::move(file)) {}
  UniqueFd file_;
};

}  // namespace verbena::store
