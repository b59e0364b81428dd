// SPDX-License-Identifier: Apache-2.0
#include "link/ports.h"

#include <cerrno>

#include <gtest/gtest.h>

#include "link/shared_table.h"

namespace verbena::link {
namespace {

const wire::AddressSet kAll;
const wire::Gid kOne = wire::Gid::from_ipv4(10, 0, 0, 1);
const wire::Gid kTwo = wire::Gid::from_ipv4(10, 0, 0, 2);
const wire::Gid kSix{{0xfd, 0x99, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1}};
constexpr uint64_t kService = 0x0106'1234;
using Kind = Ports::Kind;

class PortsTest : public ::testing::Test {
 protected:
  PortsTest() : mapping_(TableMapping::create("ports_test", 1).value()) {
    join(3);
    join(4);
  }
  SharedTable& table() { return mapping_.table(); }
  void join(uint8_t slot) { table().slots[slot].incarnation.fetch_add(1); }
  void die(uint8_t slot) { table().slots[slot].incarnation.fetch_add(1); }
  Ports of(uint8_t slot) { return {table(), slot}; }

  TableMapping mapping_;
};

TEST_F(PortsTest, APortIsOneMembersOnAnAddress) {
  EXPECT_EQ(of(3).add({kService, kOne}, Kind::kBound), 0);
  EXPECT_EQ(of(4).add({kService, kOne}, Kind::kBound), EADDRINUSE);
  EXPECT_EQ(of(3).add({kService, kOne}, Kind::kBound), EADDRINUSE);
  EXPECT_EQ(of(4).add({kService, kAll}, Kind::kBound), EADDRINUSE);
  EXPECT_EQ(of(4).add({kService, kTwo}, Kind::kBound), 0);
  EXPECT_EQ(of(4).add({kService + 1, kAll}, Kind::kBound), 0);
  EXPECT_EQ(of(3).add({kService + 1, kOne}, Kind::kShared), EADDRINUSE);
}

TEST_F(PortsTest, SharedByThoseWhoAllSaySo) {
  EXPECT_EQ(of(3).add({kService, kAll}, Kind::kShared), 0);
  EXPECT_EQ(of(4).add({kService, kAll}, Kind::kShared), 0);
  EXPECT_EQ(of(4).add({kService, kAll}, Kind::kBound), EADDRINUSE);
  EXPECT_EQ(of(3).add({kService, kAll}, Kind::kListening), 0);
  EXPECT_EQ(of(4).add({kService, kAll}, Kind::kListening), EADDRINUSE);
}

TEST_F(PortsTest, FamiliesAreApart) {
  const auto ipv4 = wire::AddressSet::all_ipv4();
  const auto ipv6 = wire::AddressSet::all_ipv6();
  EXPECT_EQ(of(3).add({kService, ipv4}, Kind::kBound), 0);
  EXPECT_EQ(of(4).add({kService, kAll}, Kind::kBound), EADDRINUSE);
  EXPECT_EQ(of(4).add({kService, kOne}, Kind::kBound), EADDRINUSE);
  EXPECT_EQ(of(4).add({kService, ipv6}, Kind::kBound), 0);
  EXPECT_EQ(of(3).add({kService, kSix}, Kind::kBound), EADDRINUSE);
  EXPECT_EQ(of(3).add({kService, ipv4}, Kind::kListening), 0);
  EXPECT_EQ(of(3).listener(kService, kSix), std::nullopt);
  EXPECT_EQ(of(4).add({kService, kAll}, Kind::kListening), EADDRINUSE);
  EXPECT_EQ(of(4).add({kService, ipv6}, Kind::kListening), 0);
  EXPECT_EQ(of(3).listener(kService, kSix), 4);
  EXPECT_EQ(of(3).listener(kService, kOne), 3);
}

TEST_F(PortsTest, TheListenerOnTheAddressGoesBeforeTheOneOnAll) {
  EXPECT_EQ(of(3).listener(kService, kOne), std::nullopt);
  EXPECT_EQ(of(3).add({kService, kOne}, Kind::kBound), 0);
  EXPECT_EQ(of(3).listener(kService, kOne), std::nullopt);
  EXPECT_EQ(of(3).add({kService, kAll}, Kind::kListening), 0);
  EXPECT_EQ(of(4).add({kService, kOne}, Kind::kListening), 0);
  EXPECT_EQ(of(3).listener(kService, kOne), 4);
  EXPECT_EQ(of(3).listener(kService, kTwo), 3);
  of(4).remove({kService, kOne}, Kind::kListening);
  EXPECT_EQ(of(3).listener(kService, kOne), 3);
  EXPECT_EQ(of(3).listener(kService + 1, kOne), std::nullopt);
}

TEST_F(PortsTest, WhatIsRemovedOrADeadMembersIsFree) {
  EXPECT_EQ(of(3).add({kService, kAll}, Kind::kBound), 0);
  of(4).remove({kService, kAll}, Kind::kBound);  // not its own
  EXPECT_EQ(of(4).add({kService, kAll}, Kind::kBound), EADDRINUSE);
  of(3).remove({kService, kAll}, Kind::kBound);
  EXPECT_EQ(of(4).add({kService, kAll}, Kind::kBound), 0);
  EXPECT_EQ(of(4).add({kService, kAll}, Kind::kListening), 0);
  die(4);
  EXPECT_EQ(of(3).listener(kService, kOne), std::nullopt);
  EXPECT_EQ(of(3).add({kService, kAll}, Kind::kBound), 0);
  join(4);  // the slot's next owner has nothing
  EXPECT_EQ(of(3).listener(kService, kOne), std::nullopt);
}

TEST_F(PortsTest, ClearedWhenAMemberLeaves) {
  EXPECT_EQ(of(3).add({kService, kAll}, Kind::kBound), 0);
  EXPECT_EQ(of(4).add({kService + 1, kAll}, Kind::kBound), 0);
  of(3).clear();
  EXPECT_EQ(of(4).add({kService, kAll}, Kind::kBound), 0);
  EXPECT_EQ(of(3).add({kService + 1, kAll}, Kind::kBound), EADDRINUSE);
}

TEST_F(PortsTest, AFullTableSaysSoAndGoesOnWhenThereIsRoom) {
  for (uint64_t i = 0; i < PortTable::kEntries; ++i) {
    ASSERT_EQ(of(3).add({kService + i, kAll}, Kind::kBound), 0);
  }
  EXPECT_EQ(of(3).add({kService - 1, kAll}, Kind::kBound), ENOSPC);
  of(3).remove({kService + 100, kAll}, Kind::kBound);
  EXPECT_EQ(of(4).add({kService - 1, kAll}, Kind::kBound), 0);
}

// What another process has left there is no reason to go beyond the table.
TEST_F(PortsTest, AnEndBeyondTheTableIsItsEnd) {
  ASSERT_EQ(of(3).add({kService, kOne}, Kind::kBound), 0);
  table().ports.end = 0x7fff'ffff;
  EXPECT_EQ(of(4).add({kService, kOne}, Kind::kBound), EADDRINUSE);
  EXPECT_EQ(of(4).listener(kService, kOne), std::nullopt);
  of(3).remove({kService, kTwo}, Kind::kBound);
  of(4).clear();
  of(3).remove({kService, kOne}, Kind::kBound);
  EXPECT_EQ(of(4).add({kService, kOne}, Kind::kBound), 0);
}

}  // namespace
}  // namespace verbena::link
