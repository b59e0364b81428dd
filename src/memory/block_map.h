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
  [[nodiscard]] std::span<const KeyBlock> blocks() const { return blocks_; }

  // Visits, in order, what [offset, offset + n) is made of, which lies inside: visit(Part) ->
  // Fault.
  template <typename Visit>
  [[nodiscard]] Fault walk(uint64_t offset, uint64_t n, Visit&& visit) const {
    if (n == 0) return Fault::kNone;
    Spot spot = last_.offset == offset ? last_ : find(offset);
    spot.offset += n;
    while (n > 0) {
      const KeyBlock& block = blocks_[spot.index];
      const uint64_t take = std::min<uint64_t>(n, block.bytes - spot.within);
      const uint64_t stride = uint64_t{block.bytes} + block.skip;
      const Fault fault =
          visit(Part{block.key, block.addr + spot.round * stride, spot.within, take});
      if (fault != Fault::kNone) return fault;
      n -= take;
      spot.within += take;
      if (spot.within < block.bytes) break;
      spot.within = 0;
      if (++spot.index == blocks_.size()) {
        spot.index = 0;
        ++spot.round;
      }
    }
    last_ = spot;
    return Fault::kNone;
  }

 private:
  struct Spot {
    uint64_t offset = 0;
    uint64_t round = 0;
    size_t index = 0;
    uint64_t within = 0;
  };
  [[nodiscard]] Spot find(uint64_t offset) const;

  std::vector<KeyBlock> blocks_;
  std::vector<uint64_t> ends_;  // of each block, in bytes from the start of the first
  uint64_t length_ = 0;
  // Where the last walk ended: the next most often goes on from there. Touched by one thread at a
  // time, as all of the domain is.
  mutable Spot last_;
};

}  // namespace verbena::memory
