// SPDX-License-Identifier: Apache-2.0
// For tests and benchmarks: a medium as large as one likes that keeps nothing. All its blocks lie
// in the memory of one, so whatever is written into one of them shows in all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <span>
#include <string>

#include "base/check.h"
#include "base/mutex.h"
#include "medium/backend.h"
#include "medium/positions.h"

namespace verbena::medium {

class DiscardBackend final : public Backend {
 public:
  DiscardBackend(size_t block_bytes, uint32_t capacity)
      : block_bytes_(block_bytes),
        capacity_(capacity),
        positions_(capacity),
        memory_(new(std::align_val_t{4096}) uint8_t[block_bytes]{}) {}

  [[nodiscard]] size_t block_bytes() const override { return block_bytes_; }
  [[nodiscard]] Properties properties() const override { return {.name = "discard"}; }
  [[nodiscard]] uint32_t capacity() const override { return capacity_; }
  [[nodiscard]] uint32_t existing() const override { return 0; }

  [[nodiscard]] Result<Block> allocate() override {
    const MutexLock lock(mutex_);
    const std::optional<uint32_t> position = positions_.lowest_free();
    if (!position) return fail(Error{Code::kFull, "all blocks are in use"});
    positions_.take(*position);
    return Block{*position, memory_.get()};
  }
  [[nodiscard]] Result<Block> claim(uint32_t position) override {
    const MutexLock lock(mutex_);
    if (position >= capacity() || positions_.held(position)) {
      return fail(Error{Code::kBad, "there is no free block " + std::to_string(position)});
    }
    positions_.take(position);
    return Block{position, memory_.get()};
  }
  void release(Block block) override {
    const MutexLock lock(mutex_);
    positions_.give(block.position);
  }

  void flush(const uint8_t* /*memory*/, size_t /*bytes*/) override {}
  [[nodiscard]] Result<void> fence() override { return {}; }
  [[nodiscard]] Result<void> read_medium(uint32_t position, size_t offset,
                                         std::span<uint8_t> out) override {
    VERBENA_CHECK(position < capacity() && offset + out.size() <= block_bytes_);
    std::memcpy(out.data(), memory_.get() + offset, out.size());
    return {};
  }

 private:
  struct Free {
    void operator()(uint8_t* memory) const { operator delete[](memory, std::align_val_t{4096}); }
  };
  const size_t block_bytes_;
  const uint32_t capacity_;
  Mutex mutex_;
  Positions positions_ VERBENA_GUARDED_BY(mutex_);
  const std::unique_ptr<uint8_t[], Free> memory_;
};

}  // namespace verbena::medium
