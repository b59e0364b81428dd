// SPDX-License-Identifier: Apache-2.0
// For tests: a persistent medium of plain memory, which whoever made it can look at and spoil.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <vector>

#include "base/check.h"
#include "medium/backend.h"
#include "store/chunk.h"

namespace verbena::store {

class MemoryMedium {
 public:
  MemoryMedium(uint32_t chunks_per_block, uint32_t blocks)
      : block_bytes_(size_t{chunks_per_block} * kChunkBytes),
        blocks_(blocks),
        memory_(static_cast<uint8_t*>(std::aligned_alloc(kChunkBytes, block_bytes_ * blocks))) {
    VERBENA_CHECK(memory_ != nullptr);
    std::memset(memory_.get(), 0, block_bytes_ * blocks);
  }

  uint32_t existing = 0;  // blocks
  [[nodiscard]] std::span<uint8_t> bytes() { return {memory_.get(), block_bytes_ * blocks_}; }
  [[nodiscard]] std::span<uint8_t, kChunkBytes> chunk(uint64_t number) {
    return std::span<uint8_t, kChunkBytes>(memory_.get() + number * kChunkBytes, kChunkBytes);
  }
  // One at a time; this outlives it.
  [[nodiscard]] std::unique_ptr<medium::Backend> open() { return std::make_unique<Handle>(*this); }

 private:
  class Handle final : public medium::Backend {
   public:
    explicit Handle(MemoryMedium& medium) : medium_(medium), held_(medium.blocks_) {}
    [[nodiscard]] size_t block_bytes() const override { return medium_.block_bytes_; }
    [[nodiscard]] medium::Properties properties() const override {
      return {"memory of a test", true, false, true};
    }
    [[nodiscard]] uint32_t capacity() const override { return medium_.blocks_; }
    [[nodiscard]] uint32_t existing() const override { return medium_.existing; }
    [[nodiscard]] medium::Result<medium::Block> allocate() override {
      for (uint32_t position = 0; position < medium_.blocks_; ++position) {
        if (!held_[position]) return claim(position);
      }
      return fail(medium::Error{medium::Code::kFull, "all blocks are held"});
    }
    [[nodiscard]] medium::Result<medium::Block> claim(uint32_t position) override {
      if (position >= medium_.blocks_ || held_[position]) {
        return fail(medium::Error{medium::Code::kBad, "there is no such block, or it is held"});
      }
      held_[position] = true;
      medium_.existing = std::max(medium_.existing, position + 1);
      return medium::Block{position, medium_.memory_.get() + position * medium_.block_bytes_};
    }
    void release(medium::Block block) override {
      VERBENA_CHECK(held_[block.position]);
      held_[block.position] = false;
    }
    [[nodiscard]] medium::Result<uint32_t> trim() override {
      const uint32_t before = medium_.existing;
      while (medium_.existing > 0 && !held_[medium_.existing - 1]) --medium_.existing;
      return before - medium_.existing;
    }
    [[nodiscard]] uint32_t trimmed(uint32_t blocks) const override {
      return std::min(blocks, existing());
    }
    void flush(const uint8_t* memory, size_t bytes) override {
      const uint8_t* const begin = medium_.memory_.get();
      VERBENA_CHECK(memory >= begin && memory + bytes <= begin + medium_.bytes().size());
    }
    [[nodiscard]] medium::Result<void> fence() override { return {}; }
    [[nodiscard]] medium::Result<void> read_medium(uint32_t position, size_t offset,
                                                   std::span<uint8_t> out) override {
      VERBENA_CHECK(position < medium_.blocks_ && offset + out.size() <= medium_.block_bytes_);
      std::memcpy(out.data(), medium_.memory_.get() + position * medium_.block_bytes_ + offset,
                  out.size());
      return {};
    }

   private:
    MemoryMedium& medium_;
    std::vector<bool> held_;
  };

  struct Free {
    void operator()(uint8_t* memory) const { std::free(memory); }
  };
  const size_t block_bytes_;
  const uint32_t blocks_;
  std::unique_ptr<uint8_t, Free> memory_;
};

}  // namespace verbena::store
