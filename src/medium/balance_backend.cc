// SPDX-License-Identifier: Apache-2.0
#include "medium/balance_backend.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <numa.h>

#include "base/check.h"
#include "base/rw_lock.h"
#include "medium/backend.h"

namespace verbena::medium {
namespace {

class BalanceBackend final : public Backend {
 public:
  explicit BalanceBackend(std::vector<std::unique_ptr<Backend>> media) : media_(std::move(media)) {
    VERBENA_CHECK(!media_.empty());
    for (const auto& medium : media_) {
      VERBENA_CHECK(medium->block_bytes() == media_[0]->block_bytes());
    }
  }

  [[nodiscard]] size_t block_bytes() const override { return media_[0]->block_bytes(); }

  // What all of them have; needing load() is what any of them has.
  [[nodiscard]] Properties properties() const override {
    Properties all = media_[0]->properties();
    all.name = "balance over " + std::to_string(media_.size()) + " of " + all.name;
    for (const auto& medium : media_) {
      const Properties one = medium->properties();
      all.persistent = all.persistent && one.persistent;
      all.device_target = all.device_target && one.device_target;
      all.loaded_on_demand = all.loaded_on_demand || one.loaded_on_demand;
    }
    return all;
  }
  [[nodiscard]] uint32_t capacity() const override {
    uint32_t sum = 0;
    for (const auto& medium : media_) sum += medium->capacity();
    return sum;
  }
  [[nodiscard]] uint32_t positions() const override {
    return behind_highest([](const Backend& medium) { return medium.positions(); });
  }
  [[nodiscard]] uint32_t existing() const override {
    return behind_highest([](const Backend& medium) { return medium.existing(); });
  }
  [[nodiscard]] bool has(uint32_t position) const override {
    const auto media = static_cast<uint32_t>(media_.size());
    return media_[position % media]->has(position / media);
  }
  [[nodiscard]] bool reads_past_cache() const override {
    return std::ranges::all_of(media_,
                               [](const auto& medium) { return medium->reads_past_cache(); });
  }

  [[nodiscard]] Result<Block> allocate() override {
    const size_t turn = turn_.fetch_add(1, std::memory_order_relaxed);
    for (;;) {
      const uint64_t released = released_.load(std::memory_order_acquire);
      Result<Block> block = fail(Error{});
      for (size_t i = 0; i < media_.size(); ++i) {
        const size_t medium = (turn + i) % media_.size();
        block = media_[medium]->allocate();
        if (block) return taken(medium, *block);
        if (block.error().code != Code::kFull) return block;
      }
      // Each was full when asked. All at once only if none has got a block back meanwhile.
      if (released_.load(std::memory_order_acquire) == released) return block;
    }
  }
  [[nodiscard]] Result<Block> claim(uint32_t position) override {
    const size_t medium = position % media_.size();
    const Result<Block> block =
        media_[medium]->claim(position / static_cast<uint32_t>(media_.size()));
    if (!block) return block;
    return taken(medium, *block);
  }
  void release(Block block) override {
    {
      const WriteLock lock(lock_);
      VERBENA_CHECK(held_.erase(block.memory) == 1);
    }
    const auto media = static_cast<uint32_t>(media_.size());
    media_[block.position % media]->release({block.position / media, block.memory});
    released_.fetch_add(1, std::memory_order_release);
  }

  [[nodiscard]] Result<uint32_t> trim() override {
    uint32_t sum = 0;
    for (const auto& medium : media_) {
      const Result<uint32_t> less = medium->trim();
      if (!less) return less;
      sum += *less;
    }
    return sum;
  }
  // Each gets its share of them, and what smaller ones do not have room for the others have.
  [[nodiscard]] uint32_t trimmed(uint32_t blocks) const override {
    const auto media = static_cast<uint32_t>(media_.size());
    for (uint32_t share = (blocks + media - 1) / media;;) {
      uint64_t sum = 0;
      uint32_t most = 0;
      uint32_t next = UINT32_MAX;  // with which one of them has more
      for (const auto& medium : media_) {
        const uint32_t its = medium->trimmed(share);
        sum += its;
        most = std::max(most, its);
        if (its < medium->existing()) next = std::min(next, its + 1);
      }
      if (sum >= blocks || next == UINT32_MAX) return std::min(existing(), most * media);
      share = std::max(share + 1, next);
    }
  }

  [[nodiscard]] Result<void> load(const uint8_t* memory, size_t bytes) override {
    return medium_of(memory).load(memory, bytes);
  }
  void flush(const uint8_t* memory, size_t bytes) override {
    medium_of(memory).flush(memory, bytes);
  }
  void rewrite(uint8_t* memory, size_t bytes) override { medium_of(memory).rewrite(memory, bytes); }
  // All of them, even if one failed: the others' data is as good as ever.
  [[nodiscard]] Result<void> fence() override {
    return on_all([](Backend& medium) { return medium.fence(); });
  }
  [[nodiscard]] Result<void> fence_after_failure() override {
    return on_all([](Backend& medium) { return medium.fence_after_failure(); });
  }
  [[nodiscard]] bool unreadable(const uint8_t* memory, size_t bytes) override {
    return medium_of(memory).unreadable(memory, bytes);
  }
  [[nodiscard]] Result<void> read_medium(uint32_t position, size_t offset,
                                         std::span<uint8_t> out) override {
    const auto media = static_cast<uint32_t>(media_.size());
    return media_[position % media]->read_medium(position / media, offset, out);
  }

 private:
  // The first error.
  template <typename Call>
  [[nodiscard]] Result<void> on_all(const Call& call) {
    Result<void> all;
    for (const auto& medium : media_) {
      Result<void> one = call(*medium);
      if (!one && all) all = std::move(one);
    }
    return all;
  }
  // One behind the highest position, given how many each medium has.
  template <typename Count>
  [[nodiscard]] uint32_t behind_highest(const Count& count) const {
    uint32_t behind = 0;
    for (size_t medium = 0; medium < media_.size(); ++medium) {
      const uint32_t blocks = count(*media_[medium]);
      if (blocks > 0) behind = std::max(behind, position_of(medium, blocks - 1) + 1);
    }
    return behind;
  }
  [[nodiscard]] uint32_t position_of(size_t medium, uint32_t block) const {
    return block * static_cast<uint32_t>(media_.size()) + static_cast<uint32_t>(medium);
  }

  [[nodiscard]] Block taken(size_t medium, const Block& block) {
    const WriteLock lock(lock_);
    VERBENA_CHECK(held_.emplace(block.memory, medium).second);
    return {position_of(medium, block.position), block.memory};
  }

  [[nodiscard]] Backend& medium_of(const uint8_t* memory) {
    if (media_.size() == 1) return *media_[0];
    const ReadLock lock(lock_);
    const auto behind = held_.upper_bound(memory);
    VERBENA_CHECK(behind != held_.begin());
    const auto block = std::prev(behind);
    VERBENA_CHECK(memory < block->first + block_bytes());
    return *media_[block->second];
  }

  const std::vector<std::unique_ptr<Backend>> media_;
  std::atomic<size_t> turn_ = 0;
  std::atomic<uint64_t> released_ = 0;  // blocks, ever
  RwLock lock_;
  // Blocks' memory, and whose they are.
  std::map<const uint8_t*, size_t> held_ VERBENA_GUARDED_BY(lock_);
};

}  // namespace

std::unique_ptr<Backend> make_balance_backend(std::vector<std::unique_ptr<Backend>> media) {
  return std::make_unique<BalanceBackend>(std::move(media));
}

std::vector<int> numa_nodes() {
  std::vector<int> nodes;
  if (::numa_available() >= 0) {
    for (int node = 0; node <= ::numa_max_node(); ++node) {
      if (::numa_bitmask_isbitset(::numa_all_nodes_ptr, static_cast<unsigned>(node)) != 0) {
        nodes.push_back(node);
      }
    }
  }
  if (nodes.empty()) nodes.push_back(-1);
  return nodes;
}

Result<std::unique_ptr<Backend>> make_balance_over_nodes(
    const std::vector<int>& nodes,
    const std::function<Result<std::unique_ptr<Backend>>(const NodeMedium&)>& make) {
  std::vector<std::unique_ptr<Backend>> media;
  const auto count = static_cast<uint32_t>(nodes.size());
  for (const int node : nodes) {
    auto medium =
        make({.node = node, .medium = static_cast<uint32_t>(media.size()), .media = count});
    if (!medium) return fail(medium.error());
    media.push_back(*std::move(medium));
  }
  return make_balance_backend(std::move(media));
}

}  // namespace verbena::medium
