// SPDX-License-Identifier: Apache-2.0
#include "medium/cache_backend.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "medium/backend.h"
#include "medium/faulty_backend.h"
#include "medium/malloc_backend.h"
#include "medium/staged_backend.h"
#include "medium/testing.h"

namespace verbena::medium {
namespace {

constexpr size_t kCachedBlock = size_t{128} << 10;

// Counts through to the one below.
struct Stack {
  Faults faults;
  CountingRegistrar registrar;
  std::unique_ptr<Backend> cache;

  Stack(uint32_t capacity, size_t keep) {
    auto memory =
        make_malloc_backend({.block_bytes = kCachedBlock,
                             .capacity = capacity,
                             .memory = {.group_bytes = kCachedBlock, .registrar = &registrar}});
    cache = make_cache_backend(std::make_unique<FaultyBackend>(*std::move(memory), faults), keep);
  }
};

TEST(CacheBackend, ReleasedBlocksComeBackMappedAndRegistered) {
  Stack stack(10, 2);
  std::vector<Block> blocks;
  for (int i = 0; i < 4; ++i) blocks.push_back(*stack.cache->allocate());
  EXPECT_EQ(stack.registrar.count(), 4U);
  fill_pattern(blocks[1].memory, kCachedBlock, 1);
  for (const Block& block : blocks) stack.cache->release(block);
  EXPECT_EQ(stack.registrar.count(), 2U);  // the first two are kept
  const Block warm = *stack.cache->allocate();
  EXPECT_EQ(warm.memory, blocks[1].memory);
  EXPECT_TRUE(has_pattern(warm.memory, kCachedBlock, 1));
  EXPECT_EQ((*stack.cache->allocate()).memory, blocks[0].memory);
  EXPECT_EQ(stack.faults.allocate.calls, 4U);
  static_cast<void>(*stack.cache->allocate());
  EXPECT_EQ(stack.faults.allocate.calls, 5U);
}

TEST(CacheBackend, KeptBlocksGoWithIt) {
  Stack stack(10, 5);
  const Block block = *stack.cache->allocate();
  stack.cache->release(block);
  EXPECT_EQ(stack.registrar.count(), 1U);
  stack.cache.reset();
  EXPECT_EQ(stack.registrar.count(), 0U);
}

TEST(CacheBackend, AKeptBlockCanBeClaimed) {
  Stack stack(2, 2);
  const Block first = *stack.cache->allocate();
  const Block second = *stack.cache->allocate();
  stack.cache->release(first);
  stack.cache->release(second);
  EXPECT_EQ(stack.cache->claim(first.position)->position, first.position);
  EXPECT_EQ(stack.cache->claim(first.position).error().code, Code::kBad);
  EXPECT_EQ(stack.cache->allocate()->position, second.position);
  EXPECT_EQ(stack.cache->allocate().error().code, Code::kFull);
}

TEST(CacheBackend, AClaimedBlockShowsTheMediumAndAFreshOneItsOwner) {
  const TemporaryFolder folder;
  auto staged = open_staged_backend(
      {.files = {.folder = folder.path(), .block_bytes = kCachedBlock, .capacity = 8}});
  ASSERT_TRUE(staged);
  const auto cache = make_cache_backend(*std::move(staged), 4);
  const Block block = *cache->allocate();
  fill_pattern(block.memory, kCachedBlock, 1);
  cache->flush(block.memory, kCachedBlock);
  ASSERT_TRUE(cache->fence());
  fill_pattern(block.memory, kCachedBlock, 2);  // not flushed
  cache->release(block);
  const Block claimed = *cache->claim(block.position);
  ASSERT_TRUE(cache->load(claimed.memory, kCachedBlock / 2));
  EXPECT_TRUE(has_pattern(claimed.memory, kCachedBlock / 2, 1));
  // Half of it is loaded. As a fresh one it is its owner's, all of it.
  cache->release(claimed);
  const Block fresh = *cache->allocate();
  ASSERT_EQ(fresh.position, block.position);
  fill_pattern(fresh.memory, kCachedBlock, 3);
  ASSERT_TRUE(cache->load(fresh.memory, kCachedBlock));
  EXPECT_TRUE(has_pattern(fresh.memory, kCachedBlock, 3));
}

}  // namespace
}  // namespace verbena::medium
