// SPDX-License-Identifier: Apache-2.0
#include "medium/balance_backend.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "medium/backend.h"
#include "medium/faulty_backend.h"
#include "medium/malloc_backend.h"
#include "medium/testing.h"

namespace verbena::medium {
namespace {

constexpr size_t kBalancedBlock = size_t{64} << 10;

struct Pair {
  std::array<Faults, 2> faults;
  std::unique_ptr<Backend> balance;

  Pair(uint32_t first, uint32_t second) {
    std::vector<std::unique_ptr<Backend>> media;
    for (size_t i = 0; i < 2; ++i) {
      auto memory =
          make_malloc_backend({.block_bytes = kBalancedBlock, .capacity = i == 0 ? first : second});
      media.push_back(std::make_unique<FaultyBackend>(*std::move(memory), faults.at(i)));
    }
    balance = make_balance_backend(std::move(media));
  }
};

TEST(BalanceBackend, BlocksAreDealtInTurn) {
  Pair pair(3, 3);
  EXPECT_EQ(pair.balance->capacity(), 6U);
  EXPECT_EQ(pair.balance->positions(), 6U);
  for (uint32_t position = 0; position < 6; ++position) {
    EXPECT_EQ(pair.balance->allocate()->position, position);
  }
  EXPECT_EQ(pair.balance->allocate().error().code, Code::kFull);
}

TEST(BalanceBackend, AFullOneIsPassedOver) {
  Pair pair(1, 4);
  EXPECT_EQ(pair.balance->capacity(), 5U);
  EXPECT_EQ(pair.balance->positions(), 8U);
  std::vector<uint32_t> positions;
  for (int i = 0; i < 5; ++i) positions.push_back(pair.balance->allocate()->position);
  EXPECT_EQ(positions, (std::vector<uint32_t>{0, 1, 3, 5, 7}));
  EXPECT_EQ(pair.balance->allocate().error().code, Code::kFull);
  EXPECT_EQ(pair.balance->claim(2).error().code, Code::kBad);
}

TEST(BalanceBackend, OtherErrorsAreToldAtOnce) {
  Pair pair(2, 2);
  pair.faults[0].fence.arm(1);
  const auto fenced = pair.balance->fence();
  ASSERT_FALSE(fenced);
  EXPECT_EQ(fenced.error().code, Code::kIo);
  EXPECT_EQ(pair.faults[1].fence.calls, 1U);  // the other one was fenced, too
  EXPECT_TRUE(pair.balance->fence());
  pair.faults[1].claim.arm(1);
  EXPECT_EQ(pair.balance->claim(1).error().code, Code::kNoMemory);
  EXPECT_EQ(pair.balance->claim(1)->position, 1U);
}

TEST(BalanceBackend, OneForEachNode) {
  const std::vector<int> nodes = numa_nodes();
  ASSERT_FALSE(nodes.empty());
  uint32_t made = 0;
  const auto balance = make_balance_over_nodes(nodes, [&](const NodeMedium& which) {
    EXPECT_EQ(which.medium, made++);
    EXPECT_EQ(which.media, nodes.size());
    return make_malloc_backend(
        {.block_bytes = kBalancedBlock, .capacity = 2, .memory = {.numa_node = which.node}});
  });
  ASSERT_TRUE(balance);
  EXPECT_EQ((*balance)->capacity(), 2 * nodes.size());
  for (size_t i = 0; i < 2 * nodes.size(); ++i) {
    const auto block = (*balance)->allocate();
    ASSERT_TRUE(block) << block.error().what;
    fill_pattern(block->memory, kBalancedBlock, 1);
  }
}

TEST(BalanceBackend, WhatCannotBeMadeIsAnError) {
  const auto balance = make_balance_over_nodes(
      {0, 1}, [](const NodeMedium& which) -> Result<std::unique_ptr<Backend>> {
        if (which.medium == 1) return fail(Error{Code::kNoMemory, "none left"});
        return make_malloc_backend({.block_bytes = kBalancedBlock, .capacity = 2});
      });
  ASSERT_FALSE(balance);
  EXPECT_EQ(balance.error().what, "none left");
}

}  // namespace
}  // namespace verbena::medium
