// SPDX-License-Identifier: Apache-2.0
// Rings, and addresses that come while they are in use.
#include <cstdlib>
#include <thread>
#include <vector>

#include <sched.h>

#include "link/shared_link_test_fixture.h"

namespace verbena::link::testing {
namespace {

[[nodiscard]] bool run(const char* command) { return std::system(command) == 0; }

// The sender has heard of it and the receiver, whose program polls, has not: what is sent now
// arrives, and what is sent later.
TEST_F(SharedLinkTest, AnAddressThatTheReceiverHasNotHeardOf) {
  bool ran = false;
  std::jthread([&] {  // whose network namespace it is
    if (::unshare(CLONE_NEWNET) != 0 || !run("ip link set lo up 2>/dev/null")) return;
    ran = true;
    Node& a = join();
    Node& b = join();
    introduce(a, b);
    ASSERT_TRUE(run("ip addr add 10.99.0.1/32 dev lo"));
    a.hear();
    path_.source = path_.destination = wire::Gid::from_ipv4(10, 99, 0, 1);
    a.send_and_flush(b, 0);
    (void)b.link->receive(Look::kAll, monotonic_now());
    a.send_and_flush(b, 1);
    (void)b.serve();
    EXPECT_EQ(b.psns(), (std::vector<uint32_t>{0, 1}));
    EXPECT_EQ(a.datagrams_sent(), 0);
    nodes_.clear();
  })
      .join();
  if (!ran) GTEST_SKIP() << "network namespaces are not to be had here";
}

}  // namespace
}  // namespace verbena::link::testing
