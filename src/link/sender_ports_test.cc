// SPDX-License-Identifier: Apache-2.0
#include "link/sender_ports.h"

#include <memory>

#include <gtest/gtest.h>

#include "link/roster.h"
#include "link/udp_transmitter.h"

namespace verbena::link {
namespace {

using Pays = SenderPorts::Pays;

constexpr uint8_t kReader = 9;
constexpr uint8_t kSender = 20;
constexpr uint16_t kPort4 = 0xc123;
constexpr uint16_t kPort6 = 0xfffe;
constexpr Time kLeftAt = 100 * kSecond;
constexpr uint32_t kPacketBytes = 500;

class SenderPortsTest : public ::testing::Test {
 protected:
  SenderPortsTest() { enter(kSender, kPort4, kPort6); }

  void enter(uint8_t slot, uint16_t port4, uint16_t port6) {
    Roster(*table_).enter(slot, {.pid = 1, .source_port = {port4, port6}, .budget = 100'000});
    refresh();
  }
  void leave(uint8_t slot) {
    Roster(*table_).leave(slot, kLeftAt);
    refresh();
  }
  void refresh() { ports_->refresh(*table_, kReader, kLeftAt); }
  // So many packets, each a datagram of its own, are sent to us and not read.
  void send_unread(uint32_t packets) {
    table_->credits[kReader][kSender].consumed = 7'000;
    table_->credits[kReader][kSender].sent =
        7'000 + packets * datagram_cost(kPacketBytes, kPacketBytes);
  }
  [[nodiscard]] bool takes(Pays pays, Duration later = 0) {
    return ports_->was_left_behind(Family::kIpv4, kPort4, pays, kPacketBytes, kLeftAt + later);
  }

  const std::unique_ptr<SharedTable> table_ = std::make_unique<SharedTable>();
  const std::unique_ptr<SenderPorts> ports_ = std::make_unique<SenderPorts>();
};

TEST_F(SenderPortsTest, OfEachFamilyByItself) {
  EXPECT_EQ(ports_->member(Family::kIpv4, kPort4), kSender);
  EXPECT_EQ(ports_->member(Family::kIpv6, kPort6), kSender);
  EXPECT_EQ(ports_->member(Family::kIpv6, kPort4), 0);
  EXPECT_EQ(ports_->member(Family::kIpv4, kPort6), 0);
  EXPECT_EQ(ports_->member(Family::kIpv4, 0), 0);
  EXPECT_EQ(ports_->member(Family::kIpv4, 0xbfff), 0);
  EXPECT_FALSE(takes(Pays::kForDatagram)) << "it has not left";
}

TEST_F(SenderPortsTest, OfOneThatLeftWhatItHadSentAndNoMore) {
  send_unread(3);
  leave(kSender);
  EXPECT_EQ(ports_->member(Family::kIpv4, kPort4), 0);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(takes(Pays::kForDatagram)) << i;
  EXPECT_FALSE(takes(Pays::kForDatagram)) << "a new owner of the port sent it";
}

TEST_F(SenderPortsTest, TheWholeOfADatagramOfSeveral) {
  constexpr uint32_t kSeveral = 40;
  table_->credits[kReader][kSender].sent = datagram_cost(kSeveral * kPacketBytes, kPacketBytes);
  leave(kSender);
  for (uint32_t i = 0; i < kSeveral; ++i) {
    EXPECT_TRUE(takes(i == 0 ? Pays::kForDatagram : Pays::kForBytes)) << i;
  }
  EXPECT_FALSE(takes(Pays::kForDatagram));
}

TEST_F(SenderPortsTest, NothingOfOneThatLeftWhenAllWasRead) {
  leave(kSender);
  EXPECT_FALSE(takes(Pays::kForDatagram));
  EXPECT_FALSE(takes(Pays::kForBytes));
  EXPECT_TRUE(takes(Pays::kElsewhere)) << "its owner decides";
}

TEST_F(SenderPortsTest, WithoutCreditsForAShortTime) {
  leave(kSender);
  EXPECT_TRUE(takes(Pays::kNothing, SenderPorts::kUnpaidFor));
  EXPECT_FALSE(takes(Pays::kNothing, SenderPorts::kUnpaidFor + 1));
}

TEST_F(SenderPortsTest, LostPacketsAreNotWaitedForLong) {
  send_unread(1);
  leave(kSender);
  EXPECT_FALSE(takes(Pays::kForDatagram, SenderPorts::kUnreadFor + 1));
  EXPECT_FALSE(takes(Pays::kElsewhere, SenderPorts::kUnreadFor + 1));
}

// What the new owner has sent is not for the former's port.
TEST_F(SenderPortsTest, ASlotThatWasTakenAgain) {
  Roster(*table_).leave(kSender, kLeftAt);
  send_unread(5);
  enter(kSender, 0xd000, 0xd000);
  EXPECT_FALSE(takes(Pays::kForDatagram));
  EXPECT_EQ(ports_->member(Family::kIpv4, 0xd000), kSender);
}

}  // namespace
}  // namespace verbena::link
