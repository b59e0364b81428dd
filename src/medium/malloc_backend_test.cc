// SPDX-License-Identifier: Apache-2.0
#include "medium/malloc_backend.h"

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "medium/backend.h"
#include "medium/testing.h"

namespace verbena::medium {
namespace {

constexpr size_t kMallocBlock = size_t{64} << 10;

std::unique_ptr<Backend> make(const MallocOptions& options) {
  auto backend = make_malloc_backend(options);
  EXPECT_TRUE(backend) << backend.error().what;
  return *std::move(backend);
}

size_t resident_pages(const uint8_t* memory, size_t bytes) {
  std::vector<unsigned char> pages(bytes / 4096);
  EXPECT_EQ(::mincore(const_cast<uint8_t*>(memory), bytes, pages.data()), 0);
  size_t count = 0;
  for (const unsigned char page : pages) count += page & 1;
  return count;
}

TEST(MallocBackend, GroupsAreAlignedToHugePages) {
  const auto backend = make({.capacity = 3});
  const Block block = *backend->allocate();
  EXPECT_EQ(reinterpret_cast<uintptr_t>(block.memory) % (2 << 20), 0U);
}

TEST(MallocBackend, ReleasedMemoryGoesBackToTheKernel) {
  const auto backend = make({.block_bytes = size_t{4} << 20, .capacity = 4});
  const Block kept = *backend->allocate();
  const Block block = *backend->allocate();
  fill_pattern(kept.memory, backend->block_bytes(), 1);
  fill_pattern(block.memory, backend->block_bytes(), 2);
  EXPECT_EQ(resident_pages(block.memory, backend->block_bytes()), 1024U);
  backend->release(block);
  EXPECT_EQ(resident_pages(block.memory, backend->block_bytes()), 0U);
  EXPECT_TRUE(has_pattern(kept.memory, backend->block_bytes(), 1));
  const Block again = *backend->allocate();
  EXPECT_EQ(again.position, block.position);
  EXPECT_EQ(again.memory[100], 0);
}

TEST(MallocBackend, PrefaultedMemoryIsThere) {
  const auto backend = make({.block_bytes = kMallocBlock,
                             .capacity = 8,
                             .memory = {.group_bytes = 4 * kMallocBlock, .prefault = true}});
  const Block block = *backend->allocate();
  EXPECT_EQ(resident_pages(block.memory, 4 * kMallocBlock), 4 * kMallocBlock / 4096);
}

TEST(MallocBackend, OnANode) {
  const auto backend =
      make({.block_bytes = kMallocBlock, .capacity = 2, .memory = {.numa_node = 0}});
  const Block block = *backend->allocate();
  fill_pattern(block.memory, kMallocBlock, 3);
  EXPECT_TRUE(has_pattern(block.memory, kMallocBlock, 3));
}

TEST(MallocBackend, ANodeThatIsNot) {
  const auto backend =
      make({.block_bytes = kMallocBlock, .capacity = 2, .memory = {.numa_node = 900}});
  const auto block = backend->allocate();
  if (block) GTEST_SKIP() << "this kernel knows no NUMA nodes";
  EXPECT_EQ(block.error().code, Code::kBad);
}

TEST(MallocBackend, RegisteredMemoryStaysUntilItsGroupGoes) {
  CountingRegistrar registrar;
  {
    const auto backend =
        make({.block_bytes = kMallocBlock,
              .capacity = 5,
              .memory = {.group_bytes = 2 * kMallocBlock, .registrar = &registrar}});
    std::vector<Block> blocks;
    for (int i = 0; i < 5; ++i) blocks.push_back(*backend->allocate());
    ASSERT_EQ(registrar.count(), 3U);  // the last is of one block
    EXPECT_TRUE(registrar.covers(blocks[4].memory, kMallocBlock));
    fill_pattern(blocks[0].memory, kMallocBlock, 1);
    backend->release(blocks[0]);
    EXPECT_TRUE(registrar.covers(blocks[0].memory, kMallocBlock));
    EXPECT_EQ(resident_pages(blocks[0].memory, kMallocBlock), kMallocBlock / 4096);
    backend->release(blocks[1]);
    EXPECT_EQ(registrar.count(), 2U);
    EXPECT_FALSE(registrar.covers(blocks[0].memory, kMallocBlock));
    const Block again = *backend->allocate();
    EXPECT_EQ(again.position, 0U);
    EXPECT_TRUE(registrar.covers(again.memory, kMallocBlock));
  }
  EXPECT_EQ(registrar.count(), 0U);
}

TEST(MallocBackend, WhatCannotBeRegisteredIsNotUsed) {
  CountingRegistrar registrar;
  const auto backend =
      make({.block_bytes = kMallocBlock, .capacity = 2, .memory = {.registrar = &registrar}});
  registrar.refuse = true;
  const auto refused = backend->allocate();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().what, "the device refuses");
  registrar.refuse = false;
  const auto block = backend->allocate();
  ASSERT_TRUE(block);
  EXPECT_EQ(block->position, 0U);
}

TEST(MallocBackend, AddressesThatCannotBeHad) {
  const auto backend = make_malloc_backend({.block_bytes = size_t{1} << 40, .capacity = 1'000'000});
  ASSERT_FALSE(backend);
  EXPECT_EQ(backend.error().code, Code::kNoMemory);
}

}  // namespace
}  // namespace verbena::medium
