// SPDX-License-Identifier: Apache-2.0
#include "medium/malloc_backend.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/mutex.h"
#include "medium/anonymous_memory.h"
#include "medium/backend.h"
#include "medium/positions.h"
#include "medium/words.h"

namespace verbena::medium {
namespace {

class MallocBackend final : public Backend {
 public:
  MallocBackend(const MallocOptions& options, std::unique_ptr<AnonymousMemory> memory)
      : block_bytes_(options.block_bytes),
        capacity_(options.capacity),
        positions_(options.capacity),
        memory_(std::move(memory)) {}

  [[nodiscard]] size_t block_bytes() const override { return block_bytes_; }
  [[nodiscard]] Properties properties() const override {
    return {.name = "malloc", .device_target = true};
  }
  [[nodiscard]] uint32_t capacity() const override { return capacity_; }
  [[nodiscard]] uint32_t existing() const override { return 0; }

  [[nodiscard]] Result<Block> allocate() override {
    const MutexLock lock(mutex_);
    const std::optional<uint32_t> position = positions_.lowest_free();
    if (!position) {
      return fail(Error{Code::kFull, "all " + std::to_string(capacity()) + " blocks of " +
                                         size_text(block_bytes_) + " are in use"});
    }
    return take(*position);
  }
  [[nodiscard]] Result<Block> claim(uint32_t position) override {
    const MutexLock lock(mutex_);
    if (position >= capacity() || positions_.held(position)) {
      return fail(Error{Code::kBad, "block " + std::to_string(position) +
                                        " is in use or does not exist; there are " +
                                        std::to_string(capacity()) + " blocks"});
    }
    return take(position);
  }
  void release(Block block) override {
    const MutexLock lock(mutex_);
    positions_.give(block.position);
    memory_->give(block.position);
  }

  void flush(const uint8_t* /*memory*/, size_t /*bytes*/) override {}
  [[nodiscard]] Result<void> fence() override { return {}; }

  // There is no medium but memory. The block is held by the caller, so it stays mapped.
  [[nodiscard]] Result<void> read_medium(uint32_t position, size_t offset,
                                         std::span<uint8_t> out) override {
    VERBENA_CHECK(position < capacity() && offset + out.size() <= block_bytes_);
    std::ranges::copy_n(memory_->address_of(position) + offset,
                        static_cast<std::ptrdiff_t>(out.size()), out.begin());
    return {};
  }

 private:
  [[nodiscard]] Result<Block> take(uint32_t position) VERBENA_REQUIRES(mutex_) {
    auto memory = memory_->take(position);
    if (!memory) return fail(memory.error());
    positions_.take(position);
    return Block{position, *memory};
  }

  const size_t block_bytes_;
  const uint32_t capacity_;
  Mutex mutex_;
  Positions positions_ VERBENA_GUARDED_BY(mutex_);
  const std::unique_ptr<AnonymousMemory> memory_;
};

}  // namespace

Result<std::unique_ptr<Backend>> make_malloc_backend(const MallocOptions& options) {
  auto memory = AnonymousMemory::reserve(options.block_bytes, options.capacity, options.memory);
  if (!memory) return fail(memory.error());
  return std::make_unique<MallocBackend>(options, *std::move(memory));
}

}  // namespace verbena::medium
