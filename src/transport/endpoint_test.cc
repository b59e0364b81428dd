// SPDX-License-Identifier: Apache-2.0
// The endpoint around its queue pairs: making and destroying, limits, and packets that reach none
// of them.
#include <gmock/gmock.h>

#include "transport/endpoint_test_fixture.h"

namespace verbena::transport::testing {
namespace {

class EndpointOf : public EndpointTest {};

TEST_F(EndpointOf, APacketForNoQueuePairIsDropped) {
  connect();
  auto headers = request(Op::kSendOnly, 0, true);
  headers.bth.dest_qp = Qpn(0x77);
  receive(headers, pattern(5));
  EXPECT_EQ(count(Counter::kDropNoQp), 1u);
  EXPECT_EQ(said(), "");
}

TEST_F(EndpointOf, APacketOfAnotherServiceIsDropped) {
  connect();
  auto headers = request(Op::kSendOnly, 0, true);
  headers.bth.opcode = wire::opcode_byte(wire::Service::kUc, Op::kSendOnly);
  receive(headers, pattern(5));
  headers.bth.opcode = wire::opcode_byte(wire::Service::kUd, Op::kSendOnly);
  receive(headers, pattern(5));
  EXPECT_EQ(count(Counter::kDropWrongService), 2u);
}

TEST_F(EndpointOf, OnlyThePeerIsHeard) {
  connect();
  send(SendOp::kSend, 1, 10);
  (void)said();
  const Packet request_packet(write(Op::kWriteOnly, 0, 0, 4, true), pattern(4));
  const Packet ack_packet(response(Op::kAcknowledge, 0), {});
  const wire::Gid other = wire::Gid::from_ipv4(10, 0, 0, 3);
  for (const Packet* packet : {&request_packet, &ack_packet}) {
    endpoint_->receive(arriving(*packet, other, kHere), now_);
    endpoint_->receive(arriving(*packet, kThere, other), now_);
  }
  endpoint_->finish_batch(now_);
  EXPECT_EQ(count(Counter::kDropWrongPeer), 4u);
  EXPECT_EQ(said() + sends(), "");
  EXPECT_NE(bytes_at(0, 4), pattern(4));
}

TEST_F(EndpointOf, ReliableDatagramsXrcAndCongestionNotificationsAreCounted) {
  connect();
  auto headers = request(Op::kSendOnly, 0, true);
  headers.bth.opcode = wire::opcode_byte(wire::Service::kRd, Op::kSendOnly);
  receive(headers, pattern(4));
  EXPECT_EQ(count(Counter::kDropRd), 1u);
  headers.bth.opcode = wire::opcode_byte(wire::Service::kXrc, Op::kSendOnly);
  receive(headers, pattern(4));
  EXPECT_EQ(count(Counter::kDropWrongService), 1u);
  headers.bth.opcode = 0x81;
  receive(headers, Bytes(16));
  EXPECT_EQ(count(Counter::kDropCnp), 1u);
  EXPECT_EQ(said(), "");
}

TEST_F(EndpointOf, QueuePairNumbersAreDrawnOrAskedFor) {
  const auto a = endpoint_->create_qp(init());
  const auto b = endpoint_->create_qp(init());
  ASSERT_TRUE(accepted(a));
  ASSERT_TRUE(accepted(b));
  EXPECT_NE(*a, *b);
  EXPECT_EQ(endpoint_->qp_count(), 2u);
  create(init(), Qpn(0x44));
  EXPECT_TRUE(refused(endpoint_->create_qp(init(), Qpn(0x44)), Error::kBusy));
  EXPECT_TRUE(refused(endpoint_->create_qp(init(), Qpn(0x1000000)), Error::kInvalid));
}

TEST_F(EndpointOf, WhatMayNotBeMade) {
  QpInit bad = init();
  bad.send_cq = nullptr;
  EXPECT_TRUE(refused(endpoint_->create_qp(bad), Error::kInvalid));
  bad = init(QpType::kXrcSend);
  EXPECT_TRUE(refused(endpoint_->create_qp(bad), Error::kInvalid));
  const EndpointLimits limits;
  bad = init();
  bad.send.max_entries = limits.max_queue_entries + 1;
  EXPECT_TRUE(refused(endpoint_->create_qp(bad), Error::kInvalid));
  bad = init();
  bad.max_recv_entries = limits.max_queue_entries + 1;
  EXPECT_TRUE(refused(endpoint_->create_qp(bad), Error::kInvalid));
  bad = init();
  bad.send.max_sge = limits.max_sge + 1;
  EXPECT_TRUE(refused(endpoint_->create_qp(bad), Error::kInvalid));
  bad = init();
  bad.max_recv_sge = limits.max_sge + 1;
  EXPECT_TRUE(refused(endpoint_->create_qp(bad), Error::kInvalid));
  bad = init();
  bad.send.max_inline = limits.max_inline + 1;
  EXPECT_TRUE(refused(endpoint_->create_qp(bad), Error::kInvalid));
}

TEST_F(EndpointOf, TheNumberOfQueuePairsAndSharedQueuesIsBounded) {
  make({}, {.max_qps = 2, .max_srqs = 1});
  create(init(), Qpn(1));
  create(init(), Qpn(2));
  EXPECT_TRUE(refused(endpoint_->create_qp(init()), Error::kTooMany));
  ASSERT_TRUE(accepted(endpoint_->destroy_qp(Qpn(1))));
  EXPECT_TRUE(accepted(endpoint_->create_qp(init())));
  ASSERT_TRUE(accepted(endpoint_->create_srq(pd_, 4, 1)));
  EXPECT_TRUE(refused(endpoint_->create_srq(pd_, 4, 1), Error::kTooMany));
}

TEST_F(EndpointOf, QueuePairsTakeTurns) {
  Tuning tuning = wide();
  tuning.quantum = 2;
  make(tuning);
  connect(defaults(), QpType::kRc, Qpn(1));
  connect(defaults(), QpType::kRc, Qpn(2));
  link_.room = 0;
  const memory::Sge sge = at(0, 4 * 1024);
  for (const Qpn qpn : {Qpn(1), Qpn(2)}) ASSERT_TRUE(accepted(post({.wr_id = 1}, {sge}, qpn)));
  link_.room = RecordingLink::kUnlimited;
  endpoint_->advance(now_);
  EXPECT_EQ(said(),
            "SEND_FIRST 0 (1024), SEND_MIDDLE 1 (1024), SEND_FIRST 0 (1024), SEND_MIDDLE 1 (1024)");
  endpoint_->advance(now_);
  EXPECT_EQ(
      said(),
      "SEND_MIDDLE 2 (1024), SEND_LAST 3 (1024) A, SEND_MIDDLE 2 (1024), SEND_LAST 3 (1024) A");
}

TEST_F(EndpointOf, DestroyingAQueuePairThatHasMoreToSend) {
  connect();
  link_.room = 1;
  send(SendOp::kSend, 1, 4 * 1024);
  receive(read(0, 0, 4000));
  ASSERT_TRUE(accepted(endpoint_->destroy_qp(kQpn)));
  link_.room = RecordingLink::kUnlimited;
  (void)said();
  endpoint_->advance(now_);
  EXPECT_EQ(said(), "");
  EXPECT_EQ(endpoint_->next_deadline(), kNever);
}

}  // namespace
}  // namespace verbena::transport::testing
