// SPDX-License-Identifier: Apache-2.0
// What queue pairs towards one other host have under way together.
#include "transport/endpoint_test_fixture.h"

namespace verbena::transport::testing {
namespace {

class Flow : public EndpointTest {
 protected:
  static constexpr uint32_t kWindowPackets = 20;
  static constexpr Qpn kSecond{0x12};

  Flow() {
    Tuning tuning;
    tuning.flight.initial_bytes = kWindowPackets * (1024 + kPacketOverhead);
    make(tuning);
  }
  void connect_two(const wire::Gid& second = kThere) {
    connect();
    QpAttr attr = defaults();
    attr.dest_qpn = Qpn(kPeerQpn.value + 1);
    attr.path.destination = second;
    connect(attr, QpType::kRc, kSecond);
  }
  void write(Qpn qpn, size_t n, SendOp op = SendOp::kWrite) {
    const SendRequest request{
        .wr_id = 1, .op = op, .remote_addr = RemoteAddr(0x9000), .rkey = RKey(0x5555)};
    ASSERT_TRUE(accepted(post(request, {at(0, n)}, qpn)));
  }
  void ack_of(Qpn qpn, uint32_t psn) {
    auto headers = response(Op::kAcknowledge, psn);
    headers.bth.dest_qp = qpn;
    receive(headers);
  }
  // Packets sent since the last call, for each of the two.
  std::pair<size_t, size_t> sent_by_each() {
    std::pair<size_t, size_t> counts;
    for (const Packet& packet : sent()) {
      ++(packet.view().bth.dest_qp == kPeerQpn ? counts.first : counts.second);
    }
    return counts;
  }
};

TEST_F(Flow, TwoQueuePairsShareTheWindowOfTheirHost) {
  connect_two();
  write(kQpn, 100 * 1024);
  EXPECT_EQ(sent_by_each(), std::pair(size_t{kWindowPackets}, size_t{0}));
  write(kSecond, 100 * 1024);
  EXPECT_EQ(sent().size(), 0u);
}

TEST_F(Flow, WhoWaitsHasItsTurn) {
  connect_two();
  write(kQpn, 400 * 1024);
  write(kSecond, 400 * 1024);
  std::pair<uint32_t, uint32_t> all;
  for (int i = 0; i < 5; ++i) {
    const auto [first, second] = sent_by_each();
    all.first += static_cast<uint32_t>(first);
    all.second += static_cast<uint32_t>(second);
    now_ += kMillisecond;
    if (first != 0) ack_of(kQpn, all.first - 1);
    if (second != 0) ack_of(kSecond, all.second - 1);
    run_until(now_ + kMillisecond);
  }
  EXPECT_GT(all.second, 2 * kWindowPackets);
  EXPECT_GT(all.second, all.first / 3);
}

TEST_F(Flow, QueuePairsToTwoHostsHaveAWindowEach) {
  connect_two(wire::Gid::from_ipv4(10, 0, 0, 3));
  write(kQpn, 100 * 1024);
  write(kSecond, 100 * 1024);
  EXPECT_EQ(sent_by_each(), std::pair(size_t{kWindowPackets}, size_t{kWindowPackets}));
}

TEST_F(Flow, WithinOneHostTheLinkSeesToIt) {
  link_.same_host = true;
  connect_two();
  write(kQpn, 100 * 1024);
  EXPECT_EQ(sent().size(), 100u);
}

TEST_F(Flow, WhatIsAskedForDoesNotStandInTheWayOfWhatIsSent) {
  connect_two();
  for (int i = 0; i < 4; ++i) write(kQpn, 20 * 1024, SendOp::kRead);
  EXPECT_EQ(sent().size(), 4u);  // the responses to some fill the window of the way here
  write(kSecond, 100 * 1024);
  EXPECT_EQ(sent().size(), kWindowPackets);
}

TEST_F(Flow, ALongReadIsAskedForAlthoughItIsMoreThanTheWindow) {
  connect();
  write(kQpn, 400 * 1024, SendOp::kRead);
  EXPECT_EQ(sent().size(), 1u);
}

// The responses to one request come at once.
TEST_F(Flow, AShortReadIsAskedForInParts) {
  connect();
  write(kQpn, 64 * 1024, SendOp::kRead);
  for (const Packet& packet : sent()) EXPECT_LE(packet.view().reth().length, 12 * 1024u);
}

TEST_F(Flow, TheLastPacketThatTheWindowHasRoomForAsksForAnAcknowledgement) {
  connect();
  write(kQpn, 100 * 1024);
  EXPECT_TRUE(sent().back().view().bth.ack_request);
}

TEST_F(Flow, WhatADestroyedQueuePairHadOutIsNotInTheWay) {
  connect_two();
  write(kQpn, 100 * 1024);
  write(kSecond, 100 * 1024);
  (void)sent();
  ASSERT_TRUE(accepted(endpoint_->destroy_qp(kQpn)));
  ASSERT_LE(endpoint_->next_deadline(), now_);
  endpoint_->advance(now_);
  EXPECT_GE(sent_by_each().second, 16u);
}

TEST_F(Flow, AQueuePairThatIsDestroyedWhileItWaitsHasNoTurn) {
  connect_two();
  write(kQpn, 100 * 1024);
  write(kSecond, 100 * 1024);
  (void)sent();
  ASSERT_TRUE(accepted(endpoint_->destroy_qp(kSecond)));
  ack(15);
  endpoint_->finish_batch(now_);
  EXPECT_GE(sent_by_each().first, 15u);
}

// While nothing of it is out, silence says nothing.
TEST_F(Flow, WhoWaitsForRoomSpendsNoRetries) {
  connect_two();
  write(kQpn, 100 * 1024);
  write(kSecond, 10);
  for (int i = 0; i < 3; ++i) wait(4096 << 14);
  EXPECT_EQ(state(kSecond), QpState::kRts);
}

TEST_F(Flow, PacketsLeaveAtThePaceOfTheWindow) {
  connect();
  write(kQpn, 400 * 1024);
  uint32_t acked = 0;
  // Round trips of 10 ms, until a window is much more than leaves at once.
  for (int i = 0; i < 4; ++i) {
    acked += static_cast<uint32_t>(sent().size());
    now_ += 10 * kMillisecond;
    ack(acked - 1);
    run_until(now_ + 9 * kMillisecond);
  }
  acked += static_cast<uint32_t>(sent().size());
  now_ += 10 * kMillisecond;
  ack(acked - 1);
  const size_t at_once = sent().size();
  run_until(now_ + 9 * kMillisecond);
  EXPECT_GT(at_once, 0u);
  EXPECT_GT(sent().size(), at_once);
}

TEST_F(Flow, ACongestionNoticeMakesTheWindowSmaller) {
  QpAttr attr = defaults();
  attr.path.traffic_class = 2;  // ECT
  connect(attr);
  write(kQpn, 200 * 1024);
  ASSERT_EQ(sent().size(), kWindowPackets);
  now_ += 10 * kMillisecond;
  const Packet notice(headers_of(wire::Service::kCnp, Op::kSendMiddle, kQpn, Psn(0)), Bytes(16));
  endpoint_->receive(arriving(notice), now_);
  EXPECT_EQ(count(Counter::kCongestionNotice), 1u);
  // Of a window of 16 packets none is free until more than four are acknowledged.
  ack(3);
  EXPECT_EQ(sent().size(), 0u);
  // From another host it says nothing.
  endpoint_->receive(arriving(notice, wire::Gid::from_ipv4(10, 0, 0, 9)), now_);
  EXPECT_EQ(count(Counter::kCongestionNotice), 1u);
  EXPECT_EQ(count(Counter::kDropCnp), 1u);
}

// A receiver that keeps what follows a lost packet says nothing of it until it is repaired.
TEST_F(Flow, OthersAreNotStoppedWhileOnePacketIsRepaired) {
  Tuning tuning;
  tuning.flight.initial_bytes = kWindowPackets * (1024 + kPacketOverhead);
  tuning.quantum = 1;
  make(tuning);
  connect();
  // It acknowledges more than was sent again: it is known to keep packets.
  for (uint32_t i = 0; i < 3; ++i) {
    send(SendOp::kSend, i, 10);
    endpoint_->advance(now_);
  }
  now_ += 10 * kMillisecond;
  link_.room = 0;
  nak(0, syndrome::kNakSequence);
  link_.room = 1;
  endpoint_->advance(now_);
  now_ += 10 * kMillisecond;
  ack(2);
  ASSERT_EQ(count(Counter::kPeerHolds), 1u);
  link_.room = RecordingLink::kUnlimited;
  // A round trip without loss, so that it is known how long one takes.
  send(SendOp::kSend, 9, 10);
  now_ += 10 * kMillisecond;
  ack(3);
  (void)sent();

  send(SendOp::kWrite, 10, 300 * 1024);
  run_until(now_ + 10 * kMillisecond);
  const size_t window = sent().size();
  ASSERT_GE(window, 10u);
  nak(4, syndrome::kNakSequence);
  run_until(now_ + 9 * kMillisecond);
  const size_t meanwhile = sent().size();
  EXPECT_GT(meanwhile, window / 4);
  EXPECT_LE(meanwhile, 2 * window);
}

}  // namespace
}  // namespace verbena::transport::testing
