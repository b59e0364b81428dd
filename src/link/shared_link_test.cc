// SPDX-License-Identifier: Apache-2.0
// Members that send to each other through rings: what arrives, who is woken, and room.
#include <algorithm>
#include <numeric>

#include "link/shared_link_test_fixture.h"

namespace verbena::link::testing {
namespace {

[[nodiscard]] std::vector<uint32_t> counting(uint32_t from, uint32_t count) {
  std::vector<uint32_t> all(count);
  std::iota(all.begin(), all.end(), from);
  return all;
}

TEST_F(SharedLinkTest, TwoMembersExchangePackets) {
  Node& a = join();
  Node& b = join();
  for (uint32_t i = 0; i < 100; ++i) {
    a.send_and_flush(b, i, i);
    b.send_and_flush(a, 1000 + i, 2048 - i);
  }
  EXPECT_EQ(b.serve(), 101);  // and the flow
  EXPECT_EQ(a.serve(), 101);
  ASSERT_EQ(b.psns(), counting(0, 100));
  ASSERT_EQ(a.psns(), counting(1000, 100));
  for (size_t i = 0; i < 100; ++i) {
    EXPECT_EQ(b.arrived[i].payload, std::vector<uint8_t>(i, static_cast<uint8_t>(i)));
    EXPECT_EQ(a.arrived[i].payload.size(), 2048 - i);
  }
  EXPECT_EQ(b.arrived[7].source, kLoopback);
  EXPECT_EQ(b.arrived[7].traffic_class, 32);
  EXPECT_EQ(b.arrived[7].hop_limit, 9);
  EXPECT_EQ(a.datagrams_sent() + b.datagrams_sent(), 0);
  EXPECT_EQ(a.bad_records() + b.bad_records(), 0);
}

// As they would be on the wire: headers, payload, pad, ICRC.
TEST_F(SharedLinkTest, BothEndsCountWhatTheWireWouldCarry) {
  Node& a = join();
  Node& b = join();
  a.send(b, 0, 5);
  a.send_run(b, 1, 4, 256);
  (void)b.serve();
  const uint64_t bytes = (12 + 8 + 4) + 4 * (12 + 256 + 4);
  EXPECT_EQ(a.link->transmit_counters().packets, 5);
  EXPECT_EQ(a.link->transmit_counters().bytes, bytes);
  EXPECT_EQ(b.link->receive_counters().packets, 5);
  EXPECT_EQ(b.link->receive_counters().bytes, bytes);
}

TEST_F(SharedLinkTest, AFlowIsToldWhenItChanges) {
  Node& a = join();
  Node& b = join();
  for (const uint8_t traffic_class : std::array<uint8_t, 4>{1, 1, 2, 1}) {
    path_.traffic_class = traffic_class;
    a.send_and_flush(b, traffic_class);
  }
  path_.source = wire::Gid::from_ipv4(127, 0, 0, 2);
  a.send_and_flush(b, 3);
  EXPECT_EQ(b.serve(), 5 + 4);
  ASSERT_EQ(b.arrived.size(), 5);
  for (size_t i = 0; i < 4; ++i) {
    EXPECT_EQ(b.arrived[i].traffic_class, b.arrived[i].bth.psn.value());
    EXPECT_EQ(b.arrived[i].source, kLoopback);
  }
  EXPECT_EQ(b.arrived[4].source, path_.source);
}

TEST_F(SharedLinkTest, ARunComesAsOne) {
  Node& a = join();
  Node& b = join();
  a.send_run(b, 100, 16, 4096, true);
  (void)b.serve();
  EXPECT_EQ(b.runs, 1);
  EXPECT_EQ(b.psns(), counting(100, 16));
  for (const Node::Arrived& one : b.arrived) {
    const auto psn = static_cast<uint8_t>(one.bth.psn.value());
    EXPECT_EQ(one.payload, std::vector<uint8_t>(4096, psn));
  }
}

// What a receiver does not take of a run comes packet by packet, and the last asks for an ACK.
TEST_F(SharedLinkTest, TheRestOfARunComesOneByOne) {
  for (const uint32_t taken : {0U, 1U, 3U}) {
    Node& a = join();
    Node& b = join();
    b.takes_of_run = taken;
    a.send_run(b, wire::Psn::kMask - 1, 4, 64, true);
    (void)b.serve();
    ASSERT_EQ(b.psns(), (std::vector<uint32_t>{wire::Psn::kMask - 1, wire::Psn::kMask, 0, 1}));
    for (size_t i = 0; i < 4; ++i) {
      const auto value = static_cast<uint8_t>(wire::Psn::kMask - 1 + i);
      EXPECT_EQ(b.arrived[i].payload, std::vector<uint8_t>(64, value));
      EXPECT_TRUE(i < taken || b.arrived[i].bth.ack_request == (i == 3));
    }
  }
}

TEST_F(SharedLinkTest, OrderIsKeptBetweenPacketsAndRuns) {
  Node& a = join();
  Node& b = join();
  uint32_t psn = 0;
  while (psn < 20'000) {
    while (a.has_room(b) && psn < 20'000) {
      a.send(b, psn, psn % 4097);
      ++psn;
      const uint32_t run = a.link->room_for(path_, b.qpn(), 1024, 2 + psn % 20);
      if (run >= 2) {
        a.send_run(b, psn, run, 1024);
        psn += run;
      }
    }
    a.link->flush();
    ASSERT_GT(b.serve(), 0);
  }
  EXPECT_EQ(b.psns(), counting(0, psn));
  EXPECT_EQ(a.link->transmit_counters().to_unresponsive, 0);
}

TEST_F(SharedLinkTest, AMemberSendsToItself) {
  Node& a = join();
  for (uint32_t i = 0; i < 10; ++i) a.send_and_flush(a, i);
  (void)a.serve();
  EXPECT_EQ(a.psns(), counting(0, 10));
  EXPECT_EQ(a.datagrams_sent(), 0);
}

TEST_F(SharedLinkTest, EachMemberGetsItsOwn) {
  std::vector<Node*> all;
  for (int i = 0; i < 6; ++i) all.push_back(&join());
  for (Node* const from : all) {
    for (Node* const to : all) from->send_and_flush(*to, uint32_t{from->slot()} << 8 | to->slot());
  }
  for (Node* const to : all) {
    (void)to->serve();
    std::vector<uint32_t> wanted;
    for (const Node* const from : all) wanted.push_back(uint32_t{from->slot()} << 8 | to->slot());
    std::ranges::sort(wanted);
    auto got = to->psns();
    std::ranges::sort(got);
    EXPECT_EQ(got, wanted);
    EXPECT_EQ(to->datagrams_sent(), 0);
  }
}

// --- who takes no rings

TEST_F(SharedLinkTest, WhoTakesNoRingsGetsDatagrams) {
  Node& a = join();
  Node& b = join(LinkKind::kUdp);
  a.send_and_flush(b, 1);
  b.send_and_flush(a, 2);
  EXPECT_EQ(a.datagrams_sent(), 1);
  EXPECT_EQ(b.datagrams_sent(), 1);
}

TEST_F(SharedLinkTest, WhoMustUseRingsSendsNoDatagrams) {
  Node& a = join(LinkKind::kShared);
  Node& b = join(LinkKind::kUdp);
  Node& c = join();
  a.send_and_flush(b, 1);
  a.send_run(b, 2, 3, 64);
  a.send_and_flush(c, 5);
  (void)c.serve();
  EXPECT_EQ(c.psns(), counting(5, 1));
  EXPECT_EQ(a.datagrams_sent(), 0);
  EXPECT_EQ(a.link->transmit_counters().errors, 4);
  EXPECT_EQ(a.link->transmit_counters().last_error, EHOSTUNREACH);
}

// --- sleeping

TEST_F(SharedLinkTest, WhoSleepsIsWokenOnce) {
  Node& a = join();
  Node& b = join();
  introduce(a, b);
  EXPECT_TRUE(b.link->prepare_sleep());
  EXPECT_FALSE(is_readable(b.bell()));
  for (uint32_t i = 0; i < 10; ++i) a.send_and_flush(b, i);
  EXPECT_EQ(rings_of(b.bell()), 1);
  EXPECT_FALSE(is_readable(b.link->control_fd()));
  EXPECT_EQ(b.serve(), 10);
  EXPECT_TRUE(b.link->prepare_sleep());
  a.send_and_flush(b, 10);
  EXPECT_EQ(rings_of(b.bell()), 1);
}

TEST_F(SharedLinkTest, WokeSilencesTheBell) {
  Node& a = join();
  Node& b = join();
  introduce(a, b);
  EXPECT_TRUE(b.link->prepare_sleep());
  a.send_and_flush(b, 0);
  EXPECT_TRUE(is_readable(b.bell()));
  b.link->woke(kAllReady);
  EXPECT_FALSE(is_readable(b.bell()));
}

TEST_F(SharedLinkTest, WhoPollsIsNeverWoken) {
  Node& a = join();
  Node& b = join();
  introduce(a, b);
  for (uint32_t i = 0; i < 100; ++i) {
    a.send_and_flush(b, i);
    EXPECT_EQ(b.serve(), 1);
  }
  EXPECT_FALSE(is_readable(b.bell()));
  EXPECT_FALSE(is_readable(b.link->control_fd()));
}

TEST_F(SharedLinkTest, NobodySleepsOverWhatIsThere) {
  Node& a = join();
  Node& b = join();
  introduce(a, b);
  a.send_and_flush(b, 0);
  EXPECT_FALSE(b.link->prepare_sleep());
  (void)b.serve();
  EXPECT_TRUE(b.link->prepare_sleep());
  b.send_and_flush(b, 1);
  EXPECT_FALSE(b.link->prepare_sleep());
}

// The ring itself is news that comes by the connection among members.
TEST_F(SharedLinkTest, WhoSleepsIsWokenByTheFirstThatItIsEverSent) {
  Node& a = join();
  Node& b = join();
  (void)b.serve();
  EXPECT_TRUE(b.link->prepare_sleep());
  EXPECT_FALSE(is_readable(b.link->control_fd()));
  a.send_and_flush(b, 0);
  EXPECT_TRUE(is_readable(b.link->control_fd()));
  // The thread that is told may be another than the one that sleeps on the bell.
  b.hear();
  EXPECT_TRUE(is_readable(b.bell()));
  EXPECT_EQ(b.serve(), 2);
}

// When it was sent, the receiver did not sleep yet; when it slept, it had not heard of the ring.
TEST_F(SharedLinkTest, WhoSleepsIsWokenByARingThatIsNotEmpty) {
  Node& a = join();
  Node& b = join();
  a.send_and_flush(b, 0);
  EXPECT_TRUE(b.link->prepare_sleep());
  EXPECT_FALSE(is_readable(b.bell()));
  b.hear();
  EXPECT_TRUE(is_readable(b.bell()));
}

TEST_F(SharedLinkTest, WhoSleepsWithoutABellToRingIsToldByItsConnection) {
  Node& a = join();
  Node& b = join();
  a.send_and_flush(b, 0);
  (void)b.serve();
  (void)rings_of(b.bell());
  EXPECT_TRUE(b.link->prepare_sleep());
  a.send_and_flush(b, 1);  // has not heard of b's bell
  EXPECT_TRUE(is_readable(b.link->control_fd()));
  b.hear();
  EXPECT_EQ(rings_of(b.bell()), 1);
}

// --- room

TEST_F(SharedLinkTest, AFullRingHasNoRoomAndItsSenderIsToldOnce) {
  Node& a = join();
  Node& b = join();
  introduce(a, b);
  const uint32_t sent = fill(a, b);
  EXPECT_GT(sent, 100);
  EXPECT_LT(sent, 256);  // of 1 KiB, in 256 KiB
  EXPECT_FALSE(a.link->room_again());
  EXPECT_EQ(a.link->room_for(path_, b.qpn(), 1024, 10), 0);
  EXPECT_FALSE(is_readable(a.bell()));
  EXPECT_EQ(b.serve(), sent);
  EXPECT_EQ(rings_of(a.bell()), 1);
  a.link->flush();
  EXPECT_TRUE(a.link->room_again());
  EXPECT_TRUE(a.has_room(b));
  EXPECT_EQ(b.psns(), counting(0, sent));
  EXPECT_EQ(a.link->transmit_counters().to_unresponsive, 0);
}

TEST_F(SharedLinkTest, WhoPollsAsksForRoomItself) {
  Node& a = join();
  Node& b = join();
  introduce(a, b);
  a.link->set_polling(true);
  (void)fill(a, b);
  (void)b.serve();
  EXPECT_FALSE(is_readable(a.bell()));
  EXPECT_FALSE(is_readable(a.link->control_fd()));
  EXPECT_TRUE(a.link->room_again());
}

// What has no payload needs no room that data may take.
TEST_F(SharedLinkTest, AFullRingTakesAcknowledgements) {
  Node& a = join();
  Node& b = join();
  introduce(a, b);
  uint32_t sent = fill(a, b);
  // Who sends all the same fills it to the last that data may have.
  while (a.link->transmit_counters().to_unresponsive == 0 && sent < 10'000) {
    a.send_and_flush(b, sent++, 64);
  }
  --sent;
  for (uint32_t i = 0; i < 50; ++i) a.send_and_flush(b, sent + i, 0);
  EXPECT_EQ(a.link->transmit_counters().to_unresponsive, 1);
  (void)b.serve();
  EXPECT_EQ(b.psns(), counting(0, sent + 50));
}

TEST_F(SharedLinkTest, WhoTakesNothingForASecondIsUnresponsiveAndHoldsUpNobody) {
  Node& a = join();
  Node& b = join();
  Node& c = join();
  introduce(a, b);
  introduce(a, c);
  const uint32_t sent = fill(a, b);
  const Time start = monotonic_now();
  uint32_t to_others = 0;
  while (!a.has_room(b) && monotonic_now() - start < 20 * kSecond) {
    ASSERT_TRUE(a.has_room(c));
    a.send_and_flush(c, to_others++);
    (void)c.serve();
    ::usleep(20'000);
  }
  EXPECT_GE(monotonic_now() - start, Membership::kUnresponsiveAfter);
  EXPECT_EQ(c.psns(), counting(0, to_others));
  EXPECT_EQ(a.link->transmit_counters().to_unresponsive, 0);
  // It may be sent to, which goes nowhere but for what fits.
  for (uint32_t i = 0; i < 10; ++i) a.send_and_flush(b, sent + i, 4096);
  a.send_run(b, sent + 10, 3, 4096);
  const uint64_t lost = a.link->transmit_counters().to_unresponsive;
  EXPECT_GE(lost, 9 + 3);
  // It goes on.
  (void)b.serve();
  EXPECT_EQ(b.psns(), counting(0, sent + 13 - static_cast<uint32_t>(lost)));
  EXPECT_TRUE(a.has_room(b));
  a.send_and_flush(b, 5000);
  (void)b.serve();
  EXPECT_EQ(b.psns().back(), 5000);
  EXPECT_EQ(a.link->transmit_counters().to_unresponsive, lost);
}

// Of two that send to one, neither takes the other's turn.
TEST_F(SharedLinkTest, SendersTakeTurns) {
  Node& a = join();
  Node& b = join();
  Node& c = join();
  introduce(a, c);
  introduce(b, c);
  const uint32_t sent = fill(a, c);
  for (uint32_t i = 0; i < 20; ++i) b.send_and_flush(c, 1000 + i);
  (void)c.link->receive(Look::kAll, monotonic_now());
  EXPECT_EQ(std::ranges::count_if(c.psns(), [](uint32_t psn) { return psn >= 1000; }), 20);
  EXPECT_LT(c.arrived.size(), sent);
}

// --- memory

TEST_F(SharedLinkTest, AnIdleRingGivesItsMemoryBack) {
  Node& a = join();
  RawMember& b = join_raw();
  const std::vector<uint8_t> payload(4096);
  for (uint32_t i = 0; i < 30; ++i) a.send(b.qpn(), i, payload);
  a.link->flush();
  b.hear();
  ASSERT_TRUE(b.ring.valid());
  RingReader reader(Ring::adopt(b.ring.get()).value());
  EXPECT_GT(resident_bytes(b.ring.get()), 30 * 4096);

  Time now = a.link->next_timer();
  EXPECT_LT(now, monotonic_now() + 10 * kSecond);
  // Not while something is unread.
  for (int i = 0; i < 4; ++i) {
    a.link->on_timer(now);
    ASSERT_NE(a.link->next_timer(), kNever);
    now = a.link->next_timer();
  }
  EXPECT_GT(resident_bytes(b.ring.get()), 30 * 4096);
  while (const auto record = reader.next()) reader.advance(*record);
  (void)reader.release();
  a.link->on_timer(now);
  EXPECT_LE(resident_bytes(b.ring.get()), 4096);
  // And nobody looks again, until something is sent.
  EXPECT_EQ(a.link->next_timer(), kNever);
  a.send(b.qpn(), 30, payload);
  a.link->flush();
  EXPECT_NE(a.link->next_timer(), kNever);
  EXPECT_TRUE(reader.next());
}

TEST_F(SharedLinkTest, ABusyRingKeepsItsMemory) {
  Node& a = join();
  RawMember& b = join_raw();
  const std::vector<uint8_t> payload(4096);
  std::optional<RingReader> reader;
  for (uint32_t i = 0; i < 8; ++i) {
    for (uint32_t k = 0; k < 10; ++k) a.send(b.qpn(), i, payload);
    a.link->flush();
    if (!reader) {
      b.hear();
      reader.emplace(Ring::adopt(b.ring.get()).value());
    }
    while (const auto record = reader->next()) reader->advance(*record);
    (void)reader->release();
    a.link->on_timer(a.link->next_timer());
  }
  EXPECT_GT(resident_bytes(b.ring.get()), 128 * 1024);
}

}  // namespace
}  // namespace verbena::link::testing
