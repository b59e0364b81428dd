// SPDX-License-Identifier: Apache-2.0
// Selective repeat between our own ends: extended acknowledgements, sent and received, also by a
// peer that means harm.
#include "transport/endpoint_test_fixture.h"
#include "wire/extended_ack.h"
#include "wire/test_packets.h"

namespace verbena::transport::testing {
namespace {

constexpr Duration kRoundTrip = 8 * kMillisecond;
constexpr Duration kWindow = kRoundTrip / 4;

class RcSelective : public EndpointTest {
 protected:
  static Bytes extension(const std::vector<uint32_t>& bits,
                         std::optional<Psn> duplicate = std::nullopt, uint16_t room = 0) {
    Bytes bytes(wire::ExtendedAck::kMaxBytes);
    wire::ExtendedAckWriter writer(bytes);
    for (const uint32_t word : wire::bitmap_of(bits)) writer.append(word);
    bytes.resize(writer.finish(room, duplicate).size());
    return bytes;
  }
  // Receive an ACK of all before `missing` that says that the peer holds `held`.
  void hears(uint32_t missing, std::initializer_list<uint32_t> held,
             std::optional<uint32_t> duplicate = std::nullopt) {
    Bytes bytes(wire::ExtendedAck::kMaxBytes);
    wire::ExtendedAckWriter writer(bytes);
    std::vector<uint32_t> bits;
    for (const uint32_t psn : held) bits.push_back(psn - missing - 1);
    for (const uint32_t word : wire::bitmap_of(bits)) writer.append(word);
    std::optional<Psn> twice;
    if (duplicate) twice = sq_psn_ + *duplicate;
    bytes.resize(writer.finish(0, twice).size());
    receive(response(Op::kAcknowledge, missing - 1), bytes);
  }
  void send_many(uint64_t from, uint64_t to) {
    for (uint64_t i = from; i <= to; ++i) send(SendOp::kSend, i, 10);
    endpoint_->advance(now_);
  }
  // A round trip is known.
  void connect_and_measure() {
    connect();
    send_many(1, 1);
    now_ += kRoundTrip;
    ack(0);
    ASSERT_EQ(sends(), "1 success");
    (void)said();
  }
  // A peer that understands it sends a WRITE of one packet.
  void write_arrives(uint32_t psn, bool ack = false, uint8_t announces = 1) {
    wire::Headers headers = write(Op::kWriteOnly, psn, 0, 10, ack);
    headers.bth.reserved7 = announces;
    receive(headers, pattern(10));
  }
  [[nodiscard]] std::string described() {
    std::string all;
    for (const Packet& packet : sent()) {
      all += std::to_string(distance(rq_psn_, packet.view().bth.psn)) + ":";
      const auto ack = wire::ExtendedAck::read(packet.view().payload);
      if (!ack) {
        all += packet.view().aeth().syndrome == syndrome::kAckNoCredits ? " ACK;" : " NAK;";
        continue;
      }
      for (uint32_t bit = 0; bit < wire::ExtendedAck::kMaxBits; ++bit) {
        if (ack->holds(bit)) all += " +" + std::to_string(bit + 2);
      }
      if (ack->duplicate) all += " twice " + std::to_string(distance(rq_psn_, *ack->duplicate));
      if (ack->room != 0) all += " room " + std::to_string(ack->room);
      all += ";";
    }
    return all;
  }
};

TEST_F(RcSelective, RequestsToAnotherHostSayThatItIsUnderstood) {
  connect();
  send(SendOp::kSend, 1, 10);
  send(SendOp::kWrite, 2, 5000);
  send(SendOp::kRead, 3, 10);
  for (const Packet& packet : sent()) EXPECT_EQ(packet.view().bth.reserved7, 1);
}

TEST_F(RcSelective, RequestsWithinTheHostSayNothing) {
  link_.same_host = true;
  connect();
  send(SendOp::kSend, 1, 10);
  send(SendOp::kWrite, 2, 5000);
  for (const Packet& packet : sent()) EXPECT_EQ(packet.view().bth.reserved7, 0);
}

TEST_F(RcSelective, AGapIsToldByWhatIsHeld) {
  connect();
  write_arrives(0);
  write_arrives(2);
  EXPECT_EQ(described(), "0: +2;");
  EXPECT_EQ(count(Counter::kExtendedAcksSent), 1u);
  write_arrives(3);  // nothing new that anybody asked for
  EXPECT_EQ(described(), "");
  write_arrives(5, /*ack=*/true);
  EXPECT_EQ(described(), "0: +2 +3 +5;");
  write_arrives(1);  // the next gap
  EXPECT_EQ(described(), "3: +2;");
  write_arrives(4, /*ack=*/true);
  EXPECT_EQ(described(), "5: ACK;");
}

TEST_F(RcSelective, SixteenEarlyPacketsAreAcknowledgedUnasked) {
  connect();
  write_arrives(0);
  write_arrives(2);
  (void)sent();
  for (uint32_t i = 3; i < 18; ++i) write_arrives(i);
  EXPECT_EQ(described(), "");
  write_arrives(18);
  EXPECT_EQ(described(), "0: +2 +3 +4 +5 +6 +7 +8 +9 +10 +11 +12 +13 +14 +15 +16 +17 +18;");
}

TEST_F(RcSelective, APeerThatSaysNothingHasItsNak) {
  connect();
  write_arrives(0, false, 0);
  write_arrives(2, false, 0);
  EXPECT_EQ(described(), "1: NAK;");
  write_arrives(3, true, 0);
  EXPECT_EQ(described(), "");
}

// Its sender knows only the addresses: what it says of the peer is not believed.
TEST_F(RcSelective, WhoSendsFromAnotherPortDoesNotSpeakForThePeer) {
  connect();
  peer_port_ = 50'000;
  write_arrives(0, false, 0);
  peer_port_ = 50'001;
  write_arrives(2, true, 1);
  EXPECT_EQ(described(), "1: NAK;");
}

TEST_F(RcSelective, WhereNothingIsHeldTheNakIsStillThere) {
  Tuning tuning = wide();
  tuning.hold_buffers = 0;
  make(tuning);
  connect();
  write_arrives(0);
  write_arrives(2);
  EXPECT_EQ(described(), "1: NAK;");
}

TEST_F(RcSelective, WhatCameTwiceIsTold) {
  connect();
  write_arrives(0);
  write_arrives(0);
  EXPECT_EQ(described(), "0: twice 0;");
  write_arrives(3);
  write_arrives(3);
  EXPECT_EQ(described(), "0: +3;0: +3 twice 3;");
}

TEST_F(RcSelective, TheRoomOfTheSocketIsSaidOnceItIsKnown) {
  connect();
  write_arrives(0, true);
  EXPECT_EQ(described(), "0: ACK;");
  endpoint_->set_receive_room(40'000);
  write_arrives(1, true);
  EXPECT_EQ(described(), "1: room 9;");
  write_arrives(2, true, 0);
  EXPECT_EQ(described(), "2: ACK;");
}

TEST_F(RcSelective, AnRnrNakIsNotFollowedByWhatIsHeld) {
  connect();
  write_arrives(0);
  wire::Headers headers = request(Op::kSendOnly, 1, true);  // no receive is posted
  headers.bth.reserved7 = 1;
  receive(headers, pattern(10));
  write_arrives(2, true);
  EXPECT_EQ(described(), "1: NAK;");
}

TEST_F(RcSelective, OnlyWhatIsMissingIsSentAgainWhenItIsLate) {
  connect_and_measure();
  send_many(2, 6);
  (void)said();
  now_ += kRoundTrip;
  hears(1, {2, 4});
  EXPECT_EQ(count(Counter::kExtendedAckReceived), 1u);
  EXPECT_EQ(said(), "");
  wait(kWindow - 1);
  EXPECT_EQ(said(), "");
  wait(1);
  EXPECT_EQ(said(), "SEND_ONLY 1 (10) A, SEND_ONLY 3 (10) A");
  EXPECT_EQ(count(Counter::kRepair), 2u);
  EXPECT_EQ(count(Counter::kGoBack), 0u);
  ack(5);
  EXPECT_EQ(sends(), "2 success, 3 success, 4 success, 5 success, 6 success");
}

TEST_F(RcSelective, ReorderingCostsNothing) {
  connect_and_measure();
  send_many(2, 6);
  (void)said();
  now_ += kRoundTrip;
  hears(1, {2, 3, 4});
  now_ += kWindow / 2;
  ack(5);
  run_until(now_ + kSecond);
  EXPECT_EQ(said(), "");
  EXPECT_EQ(count(Counter::kRetransmittedPackets), 0u);
}

TEST_F(RcSelective, ALostRepairIsRepaired) {
  connect_and_measure();
  send_many(2, 4);
  now_ += kRoundTrip;
  hears(1, {2, 3});
  wait(kWindow);
  (void)said();
  send_many(5, 5);
  EXPECT_EQ(said(), "SEND_ONLY 4 (10) A");
  now_ += kRoundTrip;
  hears(1, {2, 3, 4});
  wait(kWindow);
  EXPECT_EQ(said(), "SEND_ONLY 1 (10) A");
}

TEST_F(RcSelective, ANeedlessRepairMakesTheNextWaitLonger) {
  connect_and_measure();
  send_many(2, 3);
  now_ += kRoundTrip;
  hears(1, {2});
  wait(kWindow);
  EXPECT_EQ(count(Counter::kRetransmittedPackets), 1u);
  hears(3, {}, 1);
  EXPECT_EQ(count(Counter::kNeedlessRepair), 1u);
  (void)said();
  send_many(4, 5);
  (void)said();
  now_ += kRoundTrip;
  hears(3, {4});
  wait(kWindow);
  EXPECT_EQ(said(), "");
  wait(kWindow);
  EXPECT_EQ(said(), "SEND_ONLY 3 (10) A");
}

// --- what a peer may say that is not so

TEST_F(RcSelective, WhatIsHeldIsNotComplete) {
  connect_and_measure();
  send_many(2, 4);
  hears(1, {2, 3});
  EXPECT_EQ(sends(), "");
}

// It held two that differ, one of them forged, and dropped them.
TEST_F(RcSelective, APeerThatWaitsForWhatItHeldIsSentItAtOnce) {
  connect_and_measure();
  send_many(2, 5);
  now_ += kRoundTrip;
  hears(1, {2, 4});
  wait(kWindow);
  (void)said();
  now_ += kRoundTrip;
  hears(2, {4});
  EXPECT_EQ(said(), "SEND_ONLY 2 (10) A");
  for (int i = 0; i < 100; ++i) hears(2, {4});
  EXPECT_EQ(said(), "");
  ack(4);
  EXPECT_EQ(sends(), "2 success, 3 success, 4 success, 5 success");
}

TEST_F(RcSelective, APeerThatForgetsWhatItHeldIsSentItAll) {
  connect_and_measure();
  send_many(2, 4);
  now_ += kRoundTrip;
  hears(1, {2, 3});
  wait(kWindow);
  (void)said();
  ack(1);
  EXPECT_EQ(sends(), "2 success");
  run_until(now_ + 4 * kTimeout);
  const std::string again = said();
  EXPECT_NE(again.find("SEND_ONLY 2"), std::string::npos);
  EXPECT_NE(again.find("SEND_ONLY 3"), std::string::npos);
}

TEST_F(RcSelective, BitsForWhatWasNeverSentSayNothing) {
  connect_and_measure();
  send_many(2, 3);
  (void)said();
  now_ += kRoundTrip;
  hears(1, {100, 4000});
  run_until(now_ + kWindow);
  EXPECT_EQ(said(), "");
  ack(2);
  EXPECT_EQ(sends(), "2 success, 3 success");
}

TEST_F(RcSelective, AMalformedExtensionIsCountedAndTheAckHolds) {
  connect_and_measure();
  send_many(2, 3);
  Bytes bytes = extension({0});
  bytes[1] = 9;
  receive(response(Op::kAcknowledge, 1), bytes);
  EXPECT_EQ(count(Counter::kResponseMalformed), 1u);
  EXPECT_EQ(sends(), "2 success");
}

TEST_F(RcSelective, ANakHasNoExtension) {
  connect_and_measure();
  send_many(2, 3);
  receive(response(Op::kAcknowledge, 1, syndrome::kNakRemoteAccess), extension({0}));
  EXPECT_EQ(count(Counter::kResponseMalformed), 1u);
  EXPECT_EQ(state(), QpState::kRts);
}

TEST_F(RcSelective, WithinTheHostNobodyWasAskedForOne) {
  link_.same_host = true;
  connect();
  send_many(1, 3);
  receive(response(Op::kAcknowledge, 0), extension({0}));
  EXPECT_EQ(count(Counter::kResponseMalformed), 1u);
  EXPECT_EQ(sends(), "");
}

TEST_F(RcSelective, AFloodOfThemSendsEachPacketOncePerRoundTrip) {
  connect_and_measure();
  send_many(2, 10);
  (void)said();
  now_ += kRoundTrip;
  const Time begin = now_;
  while (now_ < begin + 4 * kRoundTrip) {
    hears(1, {3, 5, 7});
    hears(1, {2});
    wait(10 * kMicrosecond);
  }
  EXPECT_LE(count(Counter::kRetransmittedPackets), 9u * 5);
  ack(9);
  EXPECT_EQ(state(), QpState::kRts);
}

TEST_F(RcSelective, OfALongMessageOnlyWhatIsStillOutIsWatched) {
  connect_and_measure();
  send(SendOp::kWrite, 2, 20 * 1024);
  now_ += kRoundTrip;
  ack(9);
  (void)said();
  hears(10, {12, 20});
  wait(kWindow);
  EXPECT_EQ(said().substr(0, 31), "WRITE_MIDDLE 10 (1024) A, WRITE");
  EXPECT_EQ(count(Counter::kRetransmittedPackets), 9u);  // 10, 11, 13 to 19
  ack(20);
  EXPECT_EQ(sends(), "2 success");
}

// One whose PSN is so old that it seems to lie ahead says nothing.
TEST_F(RcSelective, AnAckFromHalfOfAllPsnsAgoIsNoNews) {
  connect_and_measure();
  send_many(2, 10);
  (void)said();
  now_ += kRoundTrip;
  hears(1, {3});
  for (const uint32_t ago : {1u, 2u, 3u, 4000u, 5000u, (1u << 23) - 5, (1u << 23) - 1, 1u << 23}) {
    Bytes bytes(wire::ExtendedAck::kMaxBytes, 0xff);
    bytes[0] = wire::ExtendedAck::kVersion << 4;
    bytes[1] = wire::ExtendedAck::kMaxWords;
    receive(response(Op::kAcknowledge, 0u - ago), bytes);
    EXPECT_EQ(state(), QpState::kRts);
  }
  ack(9);
  EXPECT_EQ(sends(),
            "2 success, 3 success, 4 success, 5 success, 6 success, 7 success, 8 success, "
            "9 success, 10 success");
}

TEST_F(RcSelective, APeerThatRepeatsItselfForEverIsGivenUp) {
  connect_and_measure();
  send_many(2, 10);
  const Time begin = now_;
  // Longer than the standard's four times the timeout, for each try.
  while (state() == QpState::kRts && now_ < begin + 5 * 4 * kTimeout) {
    hears(1, {3, 5});
    wait(kMillisecond);
  }
  EXPECT_EQ(state(), QpState::kErr);
  EXPECT_EQ(sends().substr(0, 31), "2 transport retries exceeded, 3");
  EXPECT_EQ(endpoint_->next_deadline(), kNever);
}

}  // namespace
}  // namespace verbena::transport::testing
