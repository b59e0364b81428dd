// SPDX-License-Identifier: Apache-2.0
// The link of a process over its sockets, opposite others of the same host.
#include "link/host_link.h"

#include "link/shared_link_test_fixture.h"

namespace verbena::link::testing {
namespace {

class HostLinkTest : public SharedLinkTest {
 protected:
  // The sender goes on as soon as something was read: the socket is never empty for long.
  void keep_sending(Node& sender, Node& reader) {
    sender.send_and_flush(reader, next_psn_++);
    reader.on_arrival = [&] { sender.send_and_flush(reader, next_psn_++); };
  }
  static void expect_nothing_reclaimed(const Node& reader) {
    EXPECT_EQ(reader.link->host().counters().credits_reclaimed, 0U);
  }

  uint32_t next_psn_ = 1;
};

// What a sleeper that was woken finds is not all there is when it has read it.
TEST_F(HostLinkTest, NothingIsTakenForLostThatCameWhileItRead) {
  Node& reader = join(LinkKind::kUdp);
  Node& sender = join(LinkKind::kUdp);
  (void)sender.serve();
  keep_sending(sender, reader);
  Time now = monotonic_now();
  for (int i = 0; i < 100; ++i) {
    const size_t before = reader.arrived.size();
    (void)reader.link->receive_ready(kAllReady, now += 20 * kMillisecond);
    ASSERT_GT(reader.arrived.size(), before);
  }
  expect_nothing_reclaimed(reader);
}

// Of two address families one is looked at less, where the other one is used.
TEST_F(HostLinkTest, NothingIsTakenForLostThatLiesInASocketThatIsNotLookedAt) {
  Node& reader = join(LinkKind::kUdp);
  Node& sender = join(LinkKind::kUdp);
  (void)sender.serve();
  // A peer of the family that no packets come by: not an IPv4 address within an IPv6 one.
  reader.link->expect_from(wire::Gid{});
  Time now = monotonic_now();
  for (int i = 0; i < 400; ++i) {
    sender.send_and_flush(reader, next_psn_++);
    (void)reader.link->receive(Look::kLikely, now += 20 * kMillisecond);
  }
  (void)reader.serve();
  EXPECT_EQ(reader.arrived.size(), 400U);
  expect_nothing_reclaimed(reader);
}

}  // namespace
}  // namespace verbena::link::testing
