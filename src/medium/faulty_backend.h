// SPDX-License-Identifier: Apache-2.0
// For tests: another backend whose calls fail when they are told to.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "medium/backend.h"

namespace verbena::medium {

// Counts calls; the one that is `fail_at` (1 is the first, 0 none) fails, and with `and_after` all
// that follow.
struct Fault {
  std::atomic<uint64_t> calls = 0;
  std::atomic<uint64_t> fail_at = 0;
  std::atomic<bool> and_after = false;

  // From now on: the nth call from here.
  void arm(uint64_t nth, bool after = false) {
    and_after = after;
    fail_at = calls + nth;
  }
  void disarm() { fail_at = 0; }
  [[nodiscard]] bool strikes() {
    const uint64_t call = ++calls;
    const uint64_t at = fail_at;
    return at != 0 && (call == at || (and_after && call > at));
  }
};

// Owned by the test, for it outlives the backend that a store has taken.
struct Faults {
  Fault allocate;             // kFull
  Fault claim;                // kNoMemory
  Fault load;                 // kIo
  Fault fence;                // kIo; what was flushed stays so in the one below
  Fault fence_after_failure;  // kIo
  Fault read;                 // kIo
  // load() of any part of this block: kIo. Set before it is claimed.
  std::optional<uint32_t> unreadable_block;
  // Called before each flush and fence, by whoever does it. Set before the backend is used.
  std::function<void()> before_sync;
};

class FaultyBackend final : public Backend {
 public:
  FaultyBackend(std::unique_ptr<Backend> below, Faults& faults)
      : below_(std::move(below)), faults_(faults) {}

  [[nodiscard]] size_t block_bytes() const override { return below_->block_bytes(); }
  [[nodiscard]] Properties properties() const override { return below_->properties(); }
  [[nodiscard]] uint32_t capacity() const override { return below_->capacity(); }
  [[nodiscard]] uint32_t positions() const override { return below_->positions(); }
  [[nodiscard]] uint32_t existing() const override { return below_->existing(); }
  [[nodiscard]] bool has(uint32_t position) const override { return below_->has(position); }
  [[nodiscard]] bool reads_past_cache() const override { return below_->reads_past_cache(); }
  [[nodiscard]] Result<Block> allocate() override {
    if (faults_.allocate.strikes()) return fail(Error{Code::kFull, "full, says the test"});
    return below_->allocate();
  }
  [[nodiscard]] Result<Block> claim(uint32_t position) override {
    if (faults_.claim.strikes()) return fail(Error{Code::kNoMemory, "no memory, says the test"});
    auto block = below_->claim(position);
    if (block && faults_.unreadable_block == position) unreadable_ = block->memory;
    return block;
  }
  void release(Block block) override { below_->release(block); }
  [[nodiscard]] Result<uint32_t> trim() override { return below_->trim(); }
  [[nodiscard]] uint32_t trimmed(uint32_t blocks) const override { return below_->trimmed(blocks); }
  [[nodiscard]] Result<void> load(const uint8_t* memory, size_t bytes) override {
    const bool unreadable =
        unreadable_ != nullptr && memory >= unreadable_ && memory < unreadable_ + block_bytes();
    if (faults_.load.strikes() || unreadable) {
      return fail(Error{Code::kIo, "cannot read, says the test"});
    }
    return below_->load(memory, bytes);
  }
  void flush(const uint8_t* memory, size_t bytes) override {
    if (faults_.before_sync) faults_.before_sync();
    below_->flush(memory, bytes);
  }
  void rewrite(uint8_t* memory, size_t bytes) override { below_->rewrite(memory, bytes); }
  [[nodiscard]] Result<void> fence_after_failure() override {
    if (faults_.fence_after_failure.strikes()) {
      return fail(Error{Code::kIo, "cannot write, says the test"});
    }
    return below_->fence_after_failure();
  }
  [[nodiscard]] bool unreadable(const uint8_t* memory, size_t bytes) override {
    return below_->unreadable(memory, bytes);
  }
  [[nodiscard]] Result<void> fence() override {
    if (faults_.before_sync) faults_.before_sync();
    if (faults_.fence.strikes()) return fail(Error{Code::kIo, "cannot write, says the test"});
    return below_->fence();
  }
  [[nodiscard]] Result<void> read_medium(uint32_t position, size_t offset,
                                         std::span<uint8_t> out) override {
    if (faults_.read.strikes()) return fail(Error{Code::kIo, "cannot read, says the test"});
    return below_->read_medium(position, offset, out);
  }

 private:
  const std::unique_ptr<Backend> below_;
  Faults& faults_;
  const uint8_t* unreadable_ = nullptr;
};

}  // namespace verbena::medium
