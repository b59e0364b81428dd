// SPDX-License-Identifier: Apache-2.0
// Which bytes of which other keys make up the range of an indirect key: blocks one after the other,
// and all of them again, each a stride further, as often as it says.
//
//   list         | block 0 | block 1  | block 2 |                                     repeat 1
//   interleave   | block 0 | block 1 || block 0 + stride | block 1 + stride || ...
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ids.h"
#include "memory/access.h"

namespace verbena::memory {

struct KeyBlock {
  uint64_t addr = 0;   // in that key's address space
  uint32_t bytes = 0;  // from there
  uint32_t skip = 0;   // of an interleave: bytes from its end to its next
  LKey key{};
};

class BlockMap {
 public:
  // What is asked for later begins `within` bytes into the block that lies at `addr`.
  struct Part {
    LKey key;
    uint64_t addr;
    uint64_t within;
    uint64_t bytes;
  };

  void reserve(size_t blocks) {
    blocks_.reserve(blocks);
    ends_.reserve(blocks);
  }
  // Blocks of no bytes are left out. None, or no repetition: nothing is mapped.
  void set(std::span<const KeyBlock> blocks, uint64_t repeat);
  void clear();

  [[nodiscard]] uint64_t length() const { return length_; }

  // Visits, in order, what [offset, offset + n) is made of, which lies inside: visit(Part) ->
  // Fault.
  template <typename Visit>
  [[nodiscard]] Fault walk(uint64_t offset, uint64_t n, Visit&& visit) const {
    if (n == 0) return Fault::kNone;
    const uint64_t period = ends_.back();
    uint64_t round = offset / period;
    const uint64_t in_round = offset % period;
    auto index = static_cast<size_t>(std::ranges::upper_bound(ends_, in_round) - ends_.begin());
    uint64_t within = in_round - (index == 0 ? 0 : ends_[index - 1]);
    while (n > 0) {
      const KeyBlock& block = blocks_[index];
      const uint64_t take = std::min<uint64_t>(n, block.bytes - within);
      const uint64_t stride = uint64_t{block.bytes} + block.skip;
      const Fault fault = visit(Part{block.key, block.addr + round * stride, within, take});
      if (fault != Fault::kNone) return fault;
      n -= take;
      within = 0;
      if (++index == blocks_.size()) {
        index = 0;
        ++round;
      }
    }
    return Fault::kNone;
  }

 private:
  std::vector<KeyBlock> blocks_;
  std::vector<uint64_t> ends_;  // of each block, in bytes from the start of the first
  uint64_t length_ = 0;
};

}  // namespace verbena::memory
