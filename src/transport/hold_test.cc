// SPDX-License-Identifier: Apache-2.0
#include "transport/hold.h"

#include <gtest/gtest.h>

#include "transport/testing.h"

namespace verbena::transport::testing {
namespace {

using wire::Psn;

// Keeps packets after a missing one until there is no room; how many.
size_t fill(Hold& hold, HoldPool& pool, uint32_t most) {
  size_t kept = 0;
  for (uint32_t i = 1; i <= most; ++i) {
    const Packet packet(
        headers_of(wire::Service::kRc, wire::Op::kWriteMiddle, Qpn(1), Psn(100 + i)), pattern(256));
    if (!hold.keep(pool, Psn(100), arriving(packet))) break;
    ++kept;
  }
  return kept;
}

TEST(HoldPool, OneThatTakesAllItCanLeavesRoomForOthers) {
  HoldPool pool(64);
  Hold first;
  EXPECT_EQ(fill(first, pool, 100), 32u);
  Hold second;
  EXPECT_EQ(fill(second, pool, 100), 16u);
  Hold third;
  EXPECT_EQ(fill(third, pool, 100), 8u);
  EXPECT_EQ(pool.in_use(), 56u);
  // What one gives back, others may have.
  first.clear(pool);
  EXPECT_EQ(fill(third, pool, 100), 24u);
  second.clear(pool);
  third.clear(pool);
  EXPECT_EQ(pool.in_use(), 0u);
}

TEST(HoldPool, OfNoneNothingIsKept) {
  HoldPool pool(0);
  Hold hold;
  EXPECT_EQ(fill(hold, pool, 1), 0u);
}

}  // namespace
}  // namespace verbena::transport::testing
