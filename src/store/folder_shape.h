// SPDX-License-Identifier: Apache-2.0
// Inspects directories before a store is opened: which directory is which medium of the store, and
// the block size according to the superblocks.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "store/error.h"

namespace verbena::store {

struct FolderShape {
  std::vector<std::string> folders;  // in order of their media
  uint32_t chunks_per_block = 0;
};

// Whether a directory has files of a store.
[[nodiscard]] Result<bool> holds_store(const std::string& folder);
// Whether those of a store that was being made, and has no superblock and no data yet.
[[nodiscard]] bool unfinished(const std::vector<std::string>& folders);
// kNoStore, kInvalid (not all of its folders), kVersion, kDamaged.
[[nodiscard]] Result<FolderShape> find_shape(const std::vector<std::string>& folders);

}  // namespace verbena::store
