// SPDX-License-Identifier: Apache-2.0
#include "memory/block_map.h"

namespace verbena::memory {

void BlockMap::set(std::span<const KeyBlock> blocks, uint64_t repeat) {
  clear();
  uint64_t end = 0;
  for (const KeyBlock& block : blocks) {
    if (block.bytes == 0) continue;
    end += block.bytes;
    blocks_.push_back(block);
    ends_.push_back(end);
  }
  length_ = end * repeat;
}

void BlockMap::clear() {
  blocks_.clear();
  ends_.clear();
  length_ = 0;
}

}  // namespace verbena::memory
