// SPDX-License-Identifier: Apache-2.0
// Packets that met congestion, and whose packets may be marked.
#include "transport/endpoint_test_fixture.h"
#include "wire/extended_ack.h"

namespace verbena::transport::testing {
namespace {

constexpr uint8_t kEct0 = 2;
constexpr uint8_t kCe = 3;

class Marks : public EndpointTest {
 protected:
  void receive_with(uint8_t ecn, const wire::Headers& headers, const Bytes& payload = {}) {
    const Packet packet(headers, payload);
    InPacket in = arriving(packet);
    in.traffic_class = static_cast<uint8_t>(0x20 | ecn);
    endpoint_->receive(in, now_);
    endpoint_->finish_batch(now_);
  }
  // Notifications among what was sent since the last call.
  size_t notices() {
    size_t count = 0;
    for (const Packet& packet : sent()) {
      if (packet.view().bth.opcode != 0x81) continue;
      ++count;
      EXPECT_EQ(packet.view().bth.dest_qp, kPeerQpn);
      EXPECT_TRUE(packet.view().bth.becn);
      EXPECT_EQ(packet.path.class_sent() & kCe, 0);  // not to be marked itself
      EXPECT_EQ(packet.view().payload.size(), 16u);
    }
    return count;
  }
  uint8_t class_of_next() {
    send(SendOp::kSend, 1, 10);
    return sent().back().path.class_sent();
  }
};

TEST_F(Marks, AMarkedRequestIsAnsweredByANotification) {
  connect();
  receive_with(kEct0, write(Op::kWriteOnly, 0, 0, 4), pattern(4));
  EXPECT_EQ(notices(), 0u);
  receive_with(kCe, write(Op::kWriteOnly, 1, 0, 4), pattern(4));
  EXPECT_EQ(notices(), 1u);
  EXPECT_EQ(count(Counter::kMarkedReceived), 1u);
  EXPECT_EQ(count(Counter::kCongestionNoticeSent), 1u);
}

TEST_F(Marks, ANotificationIsNotToBeMarkedItself) {
  QpAttr attr = defaults();
  attr.path.traffic_class = 0x20 | kEct0;
  connect(attr);
  receive_with(kCe, write(Op::kWriteOnly, 0, 0, 4), pattern(4));
  EXPECT_EQ(notices(), 1u);
}

TEST_F(Marks, ThereIsOneNotificationIn50Microseconds) {
  connect();
  for (uint32_t i = 0; i < 10; ++i) {
    receive_with(kCe, write(Op::kWriteOnly, i, 0, 4), pattern(4));
    now_ += 10 * kMicrosecond;
  }
  EXPECT_EQ(notices(), 2u);
  EXPECT_EQ(count(Counter::kMarkedReceived), 10u);
}

TEST_F(Marks, FromAnotherHostTheySayNothing) {
  connect();
  const Packet packet(write(Op::kWriteOnly, 0, 0, 4), pattern(4));
  InPacket in = arriving(packet, wire::Gid::from_ipv4(10, 0, 0, 9));
  in.traffic_class = kCe;
  endpoint_->receive(in, now_);
  EXPECT_EQ(notices(), 0u);
  EXPECT_EQ(count(Counter::kMarkedReceived), 0u);
}

// Who asked for responses asks for less; acknowledgements say nothing.
TEST_F(Marks, MarkedResponsesAreNotAnswered) {
  connect();
  send(SendOp::kRead, 1, 1024);
  now_ += kMillisecond;
  receive_with(kCe, response(Op::kReadResponseOnly, 0), Bytes(1024));
  send(SendOp::kSend, 2, 10);
  receive_with(kCe, response(Op::kAcknowledge, 1));
  EXPECT_EQ(count(Counter::kMarkedReceived), 2u);
  EXPECT_EQ(count(Counter::kCongestionNoticeSent), 0u);
}

TEST_F(Marks, PacketsMayBeMarkedOnceThePeerIsKnownToAnswerThem) {
  connect();
  EXPECT_EQ(class_of_next() & 3, 0);
  ack(0);
  EXPECT_EQ(class_of_next() & 3, 0);
  receive(response(Op::kAcknowledge, 1), Bytes{0x10, 0, 0, 0, 0, 0, 0, 0});
  EXPECT_EQ(class_of_next() & 3, kEct0);
}

TEST_F(Marks, ARequestOfOneOfOursShowsItAsWell) {
  connect();
  wire::Headers headers = write(Op::kWriteOnly, 0, 0, 4);
  headers.bth.reserved7 = wire::kUnderstandsExtendedAck;
  receive(headers, pattern(4));
  EXPECT_EQ(class_of_next() & 3, kEct0);
}

TEST_F(Marks, WithinAHostNothingIsMarked) {
  link_.same_host = true;
  connect();
  wire::Headers headers = write(Op::kWriteOnly, 0, 0, 4);
  headers.bth.reserved7 = wire::kUnderstandsExtendedAck;
  receive(headers, pattern(4));
  EXPECT_EQ(class_of_next() & 3, 0);
}

TEST_F(Marks, WhatTheProgramChoseStays) {
  for (const uint8_t chosen : {uint8_t{1}, uint8_t{2}}) {
    const Path path{.traffic_class = chosen, .may_be_marked = true};
    EXPECT_EQ(path.class_sent(), chosen);
  }
  EXPECT_EQ((Path{.traffic_class = 0x20}).class_sent(), 0x20);
  EXPECT_EQ((Path{.traffic_class = 0x20, .may_be_marked = true}).class_sent(), 0x22);
}

// Whoever knows address and queue pair number can send one: it must be possible, at least.
class Notices : public EndpointTest {
 protected:
  void notify(uint16_t port = 0) {
    const Packet notice(headers_of(wire::Service::kCnp, Op::kSendMiddle, kQpn, Psn(0)), Bytes(16));
    InPacket in = arriving(notice);
    in.source_port = port;
    endpoint_->receive(in, now_);
  }
  [[nodiscard]] uint64_t heeded() const { return count(Counter::kCongestionNotice); }
};

TEST_F(Notices, NothingIsMarkedThatMayNotBe) {
  connect();
  send(SendOp::kSend, 1, 1024);
  notify();
  EXPECT_EQ(heeded(), 0u);
  EXPECT_EQ(count(Counter::kDropCnp), 1u);
}

TEST_F(Notices, NothingIsMarkedOfNothing) {
  QpAttr attr = defaults();
  attr.path.traffic_class = kEct0;
  connect(attr);
  notify();
  EXPECT_EQ(heeded(), 0u);
  send(SendOp::kSend, 1, 1024);
  notify(1234);  // of a NIC, which may use any port
  EXPECT_EQ(heeded(), 1u);
  ack(0);
  notify();
  EXPECT_EQ(heeded(), 1u);
}

TEST_F(Notices, OneOfOursHasOnePort) {
  connect();
  peer_port_ = 50'000;
  send(SendOp::kSend, 1, 1024);
  receive(response(Op::kAcknowledge, 0), Bytes{0x10, 0, 0, 0, 0, 0, 0, 0});
  send(SendOp::kSend, 2, 1024);
  notify(50'001);
  EXPECT_EQ(heeded(), 0u);
  notify(50'000);
  EXPECT_EQ(heeded(), 1u);
}

}  // namespace
}  // namespace verbena::transport::testing
