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

BlockMap::Spot BlockMap::find(uint64_t offset) const {
  const uint64_t period = ends_.back();
  const uint64_t round = offset / period;
  const uint64_t in_round = offset % period;
  const auto index = static_cast<size_t>(std::ranges::upper_bound(ends_, in_round) - ends_.begin());
  return {offset, round, index, in_round - (index == 0 ? 0 : ends_[index - 1])};
}

void BlockMap::clear() {
  last_ = Spot{};
  blocks_.clear();
  ends_.clear();
  length_ = 0;
}

}  // namespace verbena::memory
