// SPDX-License-Identifier: Apache-2.0
// Anonymous memory for blocks. Addresses for all of them are reserved at once, so that a block's
// address follows from its position; memory comes in groups, one mapping each, when the first block
// of a group is taken, and goes back to the kernel with blocks that are given back. Not
// thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "medium/backend.h"

namespace verbena::medium {

struct AnonymousOptions {
  size_t group_bytes = size_t{64} << 20;  // of one mapping, about: whole blocks, at least one
  bool prefault = false;                  // a group is in memory when its first block is taken
  int numa_node = -1;                     // where memory is preferred to be; -1: anywhere
  Registrar* registrar = nullptr;         // outlives this
};

class AnonymousMemory {
 public:
  [[nodiscard]] static Result<std::unique_ptr<AnonymousMemory>> reserve(
      size_t block_bytes, uint32_t capacity, const AnonymousOptions& options);
  AnonymousMemory(const AnonymousMemory&) = delete;
  AnonymousMemory& operator=(const AnonymousMemory&) = delete;
  ~AnonymousMemory();

  [[nodiscard]] uint8_t* address_of(uint32_t position) const {
    return base_ + position * block_bytes_;
  }
  // What `position` and so many bytes into it `memory` is; it is of a block of ours.
  [[nodiscard]] uint64_t offset_of(const uint8_t* memory) const {
    return static_cast<uint64_t>(memory - base_);
  }
  [[nodiscard]] Result<uint8_t*> take(uint32_t position);
  void give(uint32_t position);

 private:
  AnonymousMemory(size_t block_bytes, uint32_t capacity, const AnonymousOptions& options);
  [[nodiscard]] Result<void> map_group(uint32_t group);
  void unmap_group(uint32_t group);
  [[nodiscard]] uint8_t* group_memory(uint32_t group) const;
  [[nodiscard]] size_t group_bytes(uint32_t group) const;

  size_t block_bytes_;
  uint32_t capacity_;
  AnonymousOptions options_;
  uint32_t group_blocks_;
  std::vector<uint32_t> taken_;  // blocks of each group
  uint8_t* reserved_ = nullptr;
  size_t reserved_bytes_ = 0;
  uint8_t* base_ = nullptr;  // aligned to a huge page
};

}  // namespace verbena::medium
