// SPDX-License-Identifier: Apache-2.0
// The lock of a directory: one process that writes, or several that read. It is a kernel lock,
// which is released when the process ends for any reason.
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
