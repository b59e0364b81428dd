// SPDX-License-Identifier: Apache-2.0
// Members with rings that come and go.
#include <fstream>
#include <string>
#include <vector>

#include "link/bell.h"
#include "link/peers.h"
#include "link/shared_link_test_fixture.h"

namespace verbena::link::testing {
namespace {

// Each ring of each end is mapped twice.
[[nodiscard]] int mappings() {
  std::ifstream file("/proc/self/maps");
  int count = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.find("verbena.ring") != std::string::npos) ++count;
  }
  return count;
}

TEST_F(SharedLinkTest, ARingEndsWithItsSender) {
  Node& a = join();
  Node& b = join();
  introduce(a, b);
  leave(a);
  EXPECT_GT(mappings(), 0);
  EXPECT_EQ(b.serve(), 0);
  (void)b.link->prepare_sleep();
  EXPECT_EQ(mappings(), 0);
}

TEST_F(SharedLinkTest, WhatAMemberSentBeforeItDiedIsRead) {
  Node& a = join();
  Node& b = join();
  introduce(a, b);
  for (uint32_t i = 0; i < 100; ++i) a.send_and_flush(b, i);
  leave(a);
  EXPECT_FALSE(b.link->prepare_sleep());
  EXPECT_EQ(b.serve(), 100);
  EXPECT_EQ(b.psns().back(), 99);
  EXPECT_TRUE(b.link->prepare_sleep());
  EXPECT_EQ(mappings(), 0);
}

// A datagram's sender sends and ends. Its receiver was off its core all the while.
TEST_F(SharedLinkTest, WhatAMemberSentIsReadThoughItsRingIsHeardOfAfterItsEnd) {
  Node& a = join();
  Node& b = join();
  for (uint32_t i = 0; i < 100; ++i) a.send_and_flush(b, i);
  a.link.reset();
  b.hear();
  EXPECT_TRUE(is_readable(b.bell()));
  EXPECT_FALSE(b.link->prepare_sleep());
  (void)b.serve();
  EXPECT_EQ(b.arrived.size(), 100);
  EXPECT_TRUE(b.link->prepare_sleep());
  EXPECT_EQ(mappings(), 0);
}

TEST_F(SharedLinkTest, AnOfferOfOneThatIsGoneIsNotItsSuccessors) {
  Node& b = join();
  RawMember& a = join_raw();
  const uint8_t slot = a.host->slot();
  const uint32_t incarnation = a.host->incarnation(slot);
  auto made = Ring::make(Ring::kLeastBytes).value();
  const UniqueFd bell = make_bell();
  const GroupNames names(options_.group, options_.udp.port);
  const auto connection = connect_to(names.member(b.slot()));
  ASSERT_TRUE(connection && send_message(connection->get(), {PeerMessage::Kind::kHello, slot}));
  leave(a);
  Node& c = join(LinkKind::kAuto, slot);
  ASSERT_EQ(c.slot(), slot);
  ASSERT_TRUE(send_message(connection->get(), {PeerMessage::Kind::kRing, slot, incarnation},
                           {{made.fd.get(), bell.get()}}));
  b.hear();
  RingWriter writer(std::move(made.ring));
  writer.publish({.kind = RecordKind::kFlow});
  EXPECT_EQ(b.serve(), 0);
  EXPECT_TRUE(b.link->prepare_sleep());
  c.send_and_flush(b, 1);
  EXPECT_EQ(b.serve(), 2);
}

TEST_F(SharedLinkTest, ASuccessorGetsARingOfItsOwn) {
  Node& a = join();
  Node& b = join();
  introduce(a, b);
  const uint8_t slot = b.slot();
  a.send_and_flush(b, 1);  // which nobody reads
  leave(b);
  Node& c = join(LinkKind::kAuto, slot);
  ASSERT_EQ(c.slot(), slot);
  a.send_and_flush(c, 2);
  EXPECT_EQ(c.serve(), 2);
  EXPECT_EQ(c.psns(), std::vector<uint32_t>{2});
  c.send_and_flush(a, 3);
  (void)a.serve();
  EXPECT_EQ(a.psns(), std::vector<uint32_t>{3});
  EXPECT_EQ(a.datagrams_sent() + c.datagrams_sent(), 0);
}

// One that took no rings says nothing about its successor.
TEST_F(SharedLinkTest, ASuccessorOfOneThatRefusedIsOfferedARing) {
  Node& a = join();
  RawMember& b = join_raw();
  b.refuses = true;
  const uint8_t slot = b.host->slot();
  a.send(b.qpn(), 0, std::vector<uint8_t>(8));
  b.hear();
  a.hear();
  leave(b);
  Node& c = join(LinkKind::kAuto, slot);
  ASSERT_EQ(c.slot(), slot);
  a.send_and_flush(c, 1);
  EXPECT_EQ(c.serve(), 2);
}

// The bell of the one that is gone is not its.
TEST_F(SharedLinkTest, ASuccessorThatSleepsIsWoken) {
  Node& a = join();
  Node& b = join();
  const uint8_t slot = b.slot();
  b.send_and_flush(a, 0);  // a knows its bell, and has never sent to it
  (void)a.serve();
  leave(b);
  Node& c = join(LinkKind::kAuto, slot);
  ASSERT_EQ(c.slot(), slot);
  a.send_and_flush(c, 1);
  EXPECT_EQ(c.serve(), 2);
  (void)rings_of(c.bell());
  EXPECT_TRUE(c.link->prepare_sleep());
  a.send_and_flush(c, 2);  // has not heard of c's bell yet
  EXPECT_TRUE(is_readable(c.bell()) || is_readable(c.link->control_fd()));
}

TEST_F(SharedLinkTest, WhoWaitsForRoomOfOneThatDiesGoesOn) {
  Node& a = join();
  Node& b = join();
  introduce(a, b);
  (void)fill(a, b);
  EXPECT_FALSE(a.link->room_again());
  const Qpn qpn = b.qpn();
  leave(b);
  EXPECT_TRUE(a.link->room_again());
  EXPECT_TRUE(a.link->has_room_towards(path_, qpn));
  a.send(qpn, 0, std::vector<uint8_t>(8));
  a.link->flush();
  EXPECT_EQ(a.link->transmit_counters().to_unresponsive, 0);
}

// How much it may hold was asked while there was a ring; a datagram holds less.
TEST_F(SharedLinkTest, WhatIsForAMemberThatIsGoneIsNotSentToOthers) {
  Node& a = join();
  Node& b = join();
  introduce(a, b);
  constexpr uint32_t kPacketBytes = 1040;
  const uint32_t packets = a.link->room_for(path_, b.qpn(), kPacketBytes, 100);
  const Qpn qpn = b.qpn();
  leave(b);
  // The sockets' steering would give it to whoever is there.
  a.send_run(qpn, 0, packets, 1024);
  a.send(qpn, packets, std::vector<uint8_t>(8));
  EXPECT_EQ(a.link->transmit_counters().packets, 1u);
  EXPECT_EQ(a.link->transmit_counters().to_nobody, packets + 1);
}

// A device answers while it receives, and may find out only then that others are gone.
TEST_F(SharedLinkTest, MembersDieWhileOneReceives) {
  Node& a = join();
  std::vector<Node*> others;
  for (int i = 0; i < 6; ++i) others.push_back(&join());
  for (Node* const other : others) introduce(*other, a);
  for (int round = 0; round < 5; ++round) {
    for (uint32_t i = 0; i < 3; ++i) {
      for (Node* const other : others) other->send_and_flush(a, i);
    }
    Node* const gone = others.back();
    others.pop_back();
    a.arrived.clear();
    a.on_arrival = [&] {
      gone->link.reset();
      a.send(*others.front(), 7);
    };
    (void)a.link->receive(Look::kAll, monotonic_now());
    a.on_arrival = nullptr;
    (void)a.serve();
    EXPECT_EQ(a.arrived.size(), 3 * (others.size() + 1));
    (void)others.front()->serve();
  }
}

}  // namespace
}  // namespace verbena::link::testing
