// SPDX-License-Identifier: Apache-2.0
// Rings that are offered and not taken: what was sent through them leaves by the sockets, all of it
// and in its order.
#include <numeric>
#include <vector>

#include "link/shared_link_test_fixture.h"

namespace verbena::link::testing {
namespace {

// Longer than a ring is waited for.
constexpr Duration kLate = 10 * kSecond;

[[nodiscard]] std::vector<uint32_t> first(uint32_t count) {
  std::vector<uint32_t> all(count);
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// One that has no descriptors left, or was given another user's rights, cannot even refuse.
TEST_F(SharedLinkTest, ARingThatNobodyTakesIsWithdrawn) {
  Node& a = join();
  Node& b = join();
  for (uint32_t i = 0; i < 10; ++i) a.send_and_flush(b, i, 100 + i);
  a.send_run(b, 10, 5, 1024);
  EXPECT_EQ(a.datagrams_sent(), 0);
  a.link->on_timer(monotonic_now() + kLate);
  a.send_and_flush(b, 15);
  EXPECT_GT(a.datagrams_sent(), 0);
  (void)b.serve();  // which hears of the ring only now
  EXPECT_EQ(b.psns(), first(16));
  EXPECT_EQ(b.arrived[3].payload, std::vector<uint8_t>(103, 3));
  EXPECT_EQ(b.arrived[12].payload, std::vector<uint8_t>(1024, 12));
  EXPECT_EQ(b.arrived[3].hop_limit, path_.hop_limit);
}

TEST_F(SharedLinkTest, ARingThatWasTakenStays) {
  Node& a = join();
  Node& b = join();
  a.send_and_flush(b, 0);
  b.hear();
  a.send_and_flush(b, 1);
  a.link->on_timer(monotonic_now() + kLate);
  a.send_and_flush(b, 2);
  EXPECT_EQ(a.datagrams_sent(), 0);
  (void)b.serve();
  EXPECT_EQ(b.psns(), first(3));
}

TEST_F(SharedLinkTest, WhatWasInARingThatIsRefusedArrives) {
  Node& a = join();
  RawMember& b = join_raw();
  b.refuses = true;
  for (uint32_t i = 0; i < 10; ++i) a.send(b.qpn(), i, std::vector<uint8_t>(8));
  a.link->flush();
  b.hear();
  a.hear();
  a.link->flush();
  EXPECT_EQ(a.link->transmit_counters().packets, 20);  // once more
  EXPECT_GT(a.datagrams_sent(), 0);
}

// An ACK of one that then ends, to one that cannot take its ring.
TEST_F(SharedLinkTest, WhatNobodyHasTakenWhenTheProcessEndsArrives) {
  Node& a = join();
  Node& b = join();
  for (uint32_t i = 0; i < 10; ++i) a.send_and_flush(b, i);
  a.link->finish();
  EXPECT_GT(a.datagrams_sent(), 0);
  a.link.reset();
  (void)b.serve();
  EXPECT_EQ(b.psns(), first(10));
}

// It may use nothing else.
TEST_F(SharedLinkTest, ARingThatIsTheOnlyWayIsNotWithdrawn) {
  Node& a = join(LinkKind::kShared);
  Node& b = join();
  a.send_and_flush(b, 0);
  a.link->on_timer(monotonic_now() + kLate);
  a.send_and_flush(b, 1);
  (void)b.serve();
  EXPECT_EQ(b.psns(), first(2));
  EXPECT_EQ(a.datagrams_sent(), 0);
}

TEST_F(SharedLinkTest, WhereOnlyRingsMayBeUsedTheRestIsCounted) {
  Node& a = join(LinkKind::kShared);
  Node& b = join(LinkKind::kUdp);
  a.send_and_flush(b, 0);
  a.send_run(b, 1, 5, 1024);
  EXPECT_EQ(a.link->transmit_counters().without_ring, 6);
  EXPECT_EQ(a.datagrams_sent(), 0);
}

}  // namespace
}  // namespace verbena::link::testing
