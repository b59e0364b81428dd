// SPDX-License-Identifier: Apache-2.0
// What is shown of the addresses that every host has: those of its loopback.
#include "device/gid_table.h"

#include <gtest/gtest.h>

namespace verbena::device {
namespace {

constexpr wire::Gid kLoopback = wire::Gid::from_ipv4(127, 0, 0, 1);

GidOptions loopback_only() { return {.offered = AddressChoice::parse("127.0.0.1").value()}; }

TEST(GidTable, ShowsOnlyWhatIsOffered) {
  GidTable gids(loopback_only());
  EXPECT_TRUE(gids.refresh());
  ASSERT_EQ(gids.entries().size(), 1u);
  EXPECT_EQ(gids.at(0)->gid, kLoopback);
  EXPECT_FALSE(gids.at(0)->shown_as_v1);
  EXPECT_EQ(gids.find(kLoopback), 0u);
  EXPECT_FALSE(gids.at(1));
}

TEST(GidTable, ShowsEachAddressTwiceLikeAConnectX) {
  GidOptions options = loopback_only();
  options.with_v1 = true;
  GidTable gids(options);
  EXPECT_TRUE(gids.refresh());
  ASSERT_EQ(gids.entries().size(), 2u);
  EXPECT_TRUE(gids.at(0)->shown_as_v1);
  EXPECT_FALSE(gids.at(1)->shown_as_v1);
  EXPECT_EQ(gids.at(0)->gid, gids.at(1)->gid);
  EXPECT_EQ(gids.find(kLoopback), 1u);
  EXPECT_FALSE(gids.at(2));
  EXPECT_FALSE(gids.refresh());
}

TEST(GidTable, KeepsTheMtuUnderTheOptions) {
  GidOptions options = loopback_only();
  options.mtu_at_most = transport::Mtu::k512;
  GidTable gids(options);
  gids.refresh();
  EXPECT_EQ(gids.active_mtu(), transport::Mtu::k512);
}

}  // namespace
}  // namespace verbena::device
