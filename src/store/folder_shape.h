// SPDX-License-Identifier: Apache-2.0
// What folders hold, before they are opened: which of them is which medium of a store, and what the
// superblocks say about the shape of its blocks.
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

// Whether there are files of a store in a folder.
[[nodiscard]] bool holds_store(const std::string& folder);
// Whether those of a store that was being made, and has no superblock and no data yet.
[[nodiscard]] bool unfinished(const std::vector<std::string>& folders);
// kNoStore, kInvalid (not all of its folders), kVersion, kDamaged.
[[nodiscard]] Result<FolderShape> find_shape(const std::vector<std::string>& folders);

}  // namespace verbena::store
