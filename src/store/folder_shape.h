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
  uint32_t tag = 0;
  // Files that are missing or were cut off, as far as it can be told: the last ones may be missing
  // without a trace. Their field is "file PATH".
  std::vector<Damage> files;
};

// Which block of its medium a file begins with, from the chunks in it: position, or nothing if it
// holds none. For files behind one that is missing, whose length is not known.
[[nodiscard]] std::optional<uint32_t> first_position(const FolderShape& shape, uint32_t medium,
                                                     int fd);

// Whether it is the name of a file of a store: blocks.IofN.KKK.
[[nodiscard]] bool is_block_file(const std::string& name);
// Whether a directory has files of a store. kIo: it cannot be told.
[[nodiscard]] Result<bool> holds_store(const std::string& folder);
// Whether those of a store that was being made, and has no superblock and no data yet.
[[nodiscard]] bool unfinished(const std::vector<std::string>& folders);
// kNoStore, kInvalid (not all of its folders), kVersion, kDamaged.
[[nodiscard]] Result<FolderShape> find_shape(const std::vector<std::string>& folders);

}  // namespace verbena::store
