// SPDX-License-Identifier: Apache-2.0
#include "medium/cache_backend.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_set>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "medium/backend.h"

namespace verbena::medium {
namespace {

class CacheBackend final : public Backend {
 public:
  CacheBackend(std::unique_ptr<Backend> below, size_t keep)
      : below_(std::move(below)),
        keep_(keep),
        loaded_on_demand_(below_->properties().loaded_on_demand) {}
  ~CacheBackend() override {
    for (const Block& block : kept_) below_->release(block);
  }

  [[nodiscard]] size_t block_bytes() const override { return below_->block_bytes(); }
  [[nodiscard]] Properties properties() const override {
    Properties properties = below_->properties();
    properties.name = "cache over " + properties.name;
    return properties;
  }
  [[nodiscard]] uint32_t capacity() const override { return below_->capacity(); }
  [[nodiscard]] uint32_t positions() const override { return below_->positions(); }
  [[nodiscard]] uint32_t existing() const override { return below_->existing(); }
  [[nodiscard]] bool has(uint32_t position) const override { return below_->has(position); }
  [[nodiscard]] bool reads_past_cache() const override { return below_->reads_past_cache(); }

  [[nodiscard]] Result<Block> allocate() override {
    {
      const MutexLock lock(mutex_);
      if (!kept_.empty()) {
        const Block block = kept_.back();  // the last one released is the warmest
        kept_.pop_back();
        return block;
      }
    }
    return below_->allocate();
  }

  // A claimed block shows what the medium has. Memory of one kept here need not: it goes down
  // first.
  [[nodiscard]] Result<Block> claim(uint32_t position) override {
    if (const std::optional<Block> kept = take_out(position)) below_->release(*kept);
    Result<Block> block = below_->claim(position);
    if (block && loaded_on_demand_) {
      const MutexLock lock(mutex_);
      claimed_.insert(position);
    }
    return block;
  }

  void release(Block block) override {
    {
      const MutexLock lock(mutex_);
      // Parts of a claimed block may not be loaded yet. Handed out as a fresh one, loading them
      // would overwrite what its new owner has written.
      if (claimed_.erase(block.position) == 0 && kept_.size() < keep_) {
        kept_.push_back(block);
        return;
      }
    }
    below_->release(block);
  }

  // What is kept here is held below.
  [[nodiscard]] Result<uint32_t> trim() override {
    {
      const MutexLock lock(mutex_);
      for (const Block& block : kept_) below_->release(block);
      kept_.clear();
    }
    return below_->trim();
  }
  [[nodiscard]] uint32_t trimmed(uint32_t blocks) const override { return below_->trimmed(blocks); }

  [[nodiscard]] Result<void> load(const uint8_t* memory, size_t bytes) override {
    return below_->load(memory, bytes);
  }
  void flush(const uint8_t* memory, size_t bytes) override { below_->flush(memory, bytes); }
  void rewrite(uint8_t* memory, size_t bytes) override { below_->rewrite(memory, bytes); }
  [[nodiscard]] Result<void> fence() override { return below_->fence(); }
  [[nodiscard]] Result<void> fence_after_failure() override {
    return below_->fence_after_failure();
  }
  [[nodiscard]] bool unreadable(const uint8_t* memory, size_t bytes) override {
    return below_->unreadable(memory, bytes);
  }
  [[nodiscard]] Result<void> read_medium(uint32_t position, size_t offset,
                                         std::span<uint8_t> out) override {
    return below_->read_medium(position, offset, out);
  }

 private:
  [[nodiscard]] std::optional<Block> take_out(uint32_t position) {
    const MutexLock lock(mutex_);
    const auto found = std::ranges::find(kept_, position, &Block::position);
    if (found == kept_.end()) return std::nullopt;
    const Block block = *found;
    kept_.erase(found);
    return block;
  }

  const std::unique_ptr<Backend> below_;
  const size_t keep_;
  const bool loaded_on_demand_;
  Mutex mutex_;
  std::vector<Block> kept_ VERBENA_GUARDED_BY(mutex_);
  // Held ones that were claimed, if loaded_on_demand_.
  std::unordered_set<uint32_t> claimed_ VERBENA_GUARDED_BY(mutex_);
};

}  // namespace

std::unique_ptr<Backend> make_cache_backend(std::unique_ptr<Backend> below, size_t keep) {
  return std::make_unique<CacheBackend>(std::move(below), keep);
}

}  // namespace verbena::medium
