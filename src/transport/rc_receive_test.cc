// SPDX-License-Identifier: Apache-2.0
// The RC responder: SEND and WRITE carried out, acknowledged, repeated and out of order.
#include <gmock/gmock.h>

#include "transport/endpoint_test_fixture.h"
#include "wire/extended_ack.h"

namespace verbena::transport::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class RcReceive : public EndpointTest {};

TEST_F(RcReceive, ASendGoesIntoTheOldestReceive) {
  connect();
  recv(7, 100, 0);
  recv(8, 100, 1000);
  receive(request(Op::kSendOnly, 0, true), pattern(50));
  EXPECT_EQ(bytes_at(0, 50), pattern(50));
  EXPECT_EQ(said(), "ACK 0 msn 1");
  ASSERT_EQ(recv_cq_.all.size(), 1u);
  EXPECT_EQ(recv_cq_.all[0].opcode, WcOpcode::kRecv);
  EXPECT_EQ(recv_cq_.all[0].qpn, kQpn);
  EXPECT_EQ(recv_cq_.all[0].source_qpn, kPeerQpn);
  EXPECT_FALSE(recv_cq_.all[0].solicited);
  EXPECT_EQ(recvs(), "7 success 50");
  EXPECT_EQ(count(Counter::kAcksSent), 1u);
}

TEST_F(RcReceive, MessagesOfEveryBoundarySizeAtEveryMtu) {
  for (const Mtu mtu : {Mtu::k256, Mtu::k512, Mtu::k1024, Mtu::k2048, Mtu::k4096}) {
    QpAttr attr = defaults();
    attr.mtu = mtu;
    connect(attr);
    const uint32_t m = mtu_bytes(mtu);
    uint32_t psn = 0;
    uint32_t msn = 0;
    for (const uint32_t n : {0u, 1u, m - 1, m, m + 1, 2 * m - 1, 2 * m, 2 * m + 1, 3 * m}) {
      const uint32_t packets = n == 0 ? 1 : (n + m - 1) / m;
      recv(n, 3 * m + 1, 0);
      take_message(pattern(n, psn), psn);
      psn += packets;
      take_message(pattern(n, psn), psn, true, 100'000);
      psn += packets;
      endpoint_->finish_batch(now_);
      msn += 2;
      // Both messages asked for an ACK; one answers both.
      EXPECT_EQ(said(), "ACK " + std::to_string(psn - 1) + " msn " + std::to_string(msn));
      EXPECT_EQ(recvs(), std::to_string(n) + " success " + std::to_string(n));
      EXPECT_EQ(bytes_at(0, n), pattern(n, psn - 2 * packets));
      EXPECT_EQ(bytes_at(100'000, n), pattern(n, psn - packets));
    }
    ASSERT_TRUE(accepted(endpoint_->destroy_qp(kQpn)));
  }
  EXPECT_GT(count(Counter::kAcksCoalesced), 0u);
}

TEST_F(RcReceive, NoAckWithoutAckReq) {
  connect();
  recv(1, 10);
  receive(request(Op::kSendOnly, 0, false), pattern(5));
  EXPECT_EQ(said(), "");
  EXPECT_EQ(recvs(), "1 success 5");
}

TEST_F(RcReceive, ImmediateSolicitedAndWriteWithImmediate) {
  connect();
  recv(1, 10);
  recv(2, 10);
  auto with_imm = request(Op::kSendOnlyImm, 0, true);
  with_imm.imm.value = 0xcafe;
  with_imm.bth.solicited = true;
  receive(with_imm, pattern(5));
  ASSERT_EQ(recv_cq_.all.size(), 1u);
  EXPECT_TRUE(recv_cq_.all[0].solicited);
  EXPECT_EQ(recv_cq_.all[0].flags & kWcWithImm, kWcWithImm);
  EXPECT_EQ(recv_cq_.all[0].imm_or_rkey, 0xcafeu);
  recv_cq_.all.clear();

  // The immediate of a WRITE takes a receive with its last packet only; the receive's memory is not
  // used.
  take(write(Op::kWriteFirst, 1, 4096, 1030), pattern(1024));
  EXPECT_THAT(recv_cq_.all, IsEmpty());
  auto last = write(Op::kWriteLastImm, 2, 4096, 1030, true);
  last.imm.value = 0xbeef;
  receive(last, pattern(6));
  ASSERT_EQ(recv_cq_.all.size(), 1u);
  EXPECT_EQ(recv_cq_.all[0].opcode, WcOpcode::kRecvWriteImm);
  EXPECT_EQ(recv_cq_.all[0].imm_or_rkey, 0xbeefu);
  EXPECT_EQ(recvs(), "2 success 1030");
  EXPECT_EQ(said(), "ACK 0 msn 1, ACK 2 msn 2");
}

TEST_F(RcReceive, AZeroLengthWriteNeedsNoKey) {
  connect();
  auto headers = write(Op::kWriteOnly, 0, 0, 0, true);
  headers.reth = {0xdeadbeef, RKey(0xbad), 0};
  receive(headers);
  EXPECT_EQ(said(), "ACK 0 msn 1");
  recv(1, 10);
  headers = write(Op::kWriteOnlyImm, 1, 0, 0, true);
  headers.reth = {0xdeadbeef, RKey(0xbad), 0};
  receive(headers);
  EXPECT_EQ(said(), "ACK 1 msn 2");
  EXPECT_EQ(recvs(), "1 success 0");
}

TEST_F(RcReceive, AnEmptyReceiveTakesAnEmptySend) {
  connect();
  ASSERT_TRUE(accepted(endpoint_->post_recv(kQpn, {.wr_id = 1})));
  receive(request(Op::kSendOnly, 0, true));
  EXPECT_EQ(recvs(), "1 success 0");
  EXPECT_EQ(said(), "ACK 0 msn 1");
}

TEST_F(RcReceive, ASendIsScatteredOverTheList) {
  connect();
  const memory::Sge list[] = {at(0, 3), at(500, 0), at(1000, 1500)};
  ASSERT_TRUE(accepted(endpoint_->post_recv(kQpn, {1, list})));
  take_message(pattern(1100), 0);
  endpoint_->finish_batch(now_);
  const Bytes want = pattern(1100);
  EXPECT_EQ(bytes_at(0, 3), Bytes(want.begin(), want.begin() + 3));
  EXPECT_EQ(bytes_at(1000, 1097), Bytes(want.begin() + 3, want.end()));
  EXPECT_EQ(recvs(), "1 success 1100");
}

TEST_F(RcReceive, PsnAndMsnWrap) {
  QpAttr attr = defaults();
  attr.rq_psn = Psn(0xfffffe);
  connect(attr);
  for (uint64_t i = 0; i < 3; ++i) recv(i, 4096);
  take_message(pattern(3000), 0);
  endpoint_->finish_batch(now_);
  EXPECT_EQ(link_.sent[0].view().bth.psn, Psn(0));
  EXPECT_EQ(said(), "ACK 2 msn 1");
  receive(request(Op::kSendOnly, 3, true));
  EXPECT_EQ(said(), "ACK 3 msn 2");
  // A duplicate from before the wrap is known as one.
  receive(request(Op::kSendFirst, 0), pattern(1024));
  EXPECT_EQ(count(Counter::kDuplicateRequest), 1u);
  EXPECT_EQ(said(), "ACK 3 msn 2");
}

TEST_F(RcReceive, ADuplicateIsAcknowledgedAndNeverExecutedAgain) {
  connect();
  recv(1, 100, 0);
  recv(2, 100, 1000);
  receive(request(Op::kSendOnly, 0, true), pattern(50));
  receive(write(Op::kWriteOnly, 1, 2000, 10, true), pattern(10));
  (void)said();
  fill(0, pattern(50, 5));
  fill(2000, pattern(10, 5));
  // Expect the newest PSN acknowledged, whether or not the copies ask for it, once for the batch.
  take(request(Op::kSendOnly, 0, false), pattern(50));
  take(write(Op::kWriteOnly, 1, 2000, 10, false), pattern(10));
  endpoint_->finish_batch(now_);
  EXPECT_EQ(said(), "ACK 1 msn 2");
  EXPECT_EQ(count(Counter::kDuplicateRequest), 2u);
  EXPECT_EQ(bytes_at(0, 50), pattern(50, 5));
  EXPECT_EQ(bytes_at(2000, 10), pattern(10, 5));
  EXPECT_EQ(recvs(), "1 success 50");
}

TEST_F(RcReceive, AGapDrawsOneNakAndTheRepairAcknowledgesWhatWasHeld) {
  connect();
  receive(write(Op::kWriteOnly, 0, 0, 4, true), pattern(4));
  EXPECT_EQ(said(), "ACK 0 msn 1");
  receive(write(Op::kWriteOnly, 2, 8, 4, true), pattern(4, 2));
  EXPECT_EQ(said(), "NAK sequence 1 msn 1");
  receive(write(Op::kWriteOnly, 3, 12, 4, true), pattern(4, 3));
  EXPECT_EQ(said(), "");
  EXPECT_EQ(count(Counter::kNakSequenceSent), 1u);
  EXPECT_EQ(count(Counter::kOutOfOrderHeld), 2u);
  EXPECT_EQ(endpoint_->held_packets(), 2u);
  EXPECT_NE(bytes_at(8, 4), pattern(4, 2));  // held, not executed
  receive(write(Op::kWriteOnly, 1, 4, 4, true), pattern(4, 1));
  EXPECT_EQ(said(), "ACK 3 msn 4");
  EXPECT_EQ(bytes_at(12, 4), pattern(4, 3));
  EXPECT_EQ(endpoint_->held_packets(), 0u);
}

TEST_F(RcReceive, ASecondGapDrawsItsOwnNak) {
  connect();
  receive(write(Op::kWriteOnly, 1, 0, 4, true), pattern(4));
  receive(write(Op::kWriteOnly, 3, 0, 4, true), pattern(4));
  EXPECT_EQ(said(), "NAK sequence 0 msn 0");
  receive(write(Op::kWriteOnly, 0, 0, 4, true), pattern(4));
  EXPECT_EQ(said(), "NAK sequence 2 msn 2");
  receive(write(Op::kWriteOnly, 2, 0, 4, true), pattern(4));
  EXPECT_EQ(said(), "ACK 3 msn 4");
}

TEST_F(RcReceive, ANakAnswersTheAckOwedBeforeIt) {
  connect();
  take(write(Op::kWriteOnly, 0, 0, 4, true), pattern(4));
  take(write(Op::kWriteOnly, 2, 0, 4, true), pattern(4));
  endpoint_->finish_batch(now_);
  EXPECT_EQ(said(), "NAK sequence 1 msn 1");
}

TEST_F(RcReceive, WhatIsTooFarAheadOrBeyondThePoolIsDropped) {
  Tuning tuning = wide();
  tuning.hold_buffers = 6;  // one may have half of it
  make(tuning);
  connect();
  receive(write(Op::kWriteOnly, Hold::kMaxAhead + 1, 0, 4, true), pattern(4));
  EXPECT_EQ(count(Counter::kOutOfOrderDropped), 1u);
  EXPECT_EQ(said(), "NAK sequence 0 msn 0");
  for (uint32_t psn = 1; psn <= 5; ++psn)
    receive(write(Op::kWriteOnly, psn, 0, 4, true), pattern(4));
  EXPECT_EQ(count(Counter::kOutOfOrderDropped), 3u);
  EXPECT_EQ(endpoint_->held_packets(), 3u);
  receive(write(Op::kWriteOnly, 0, 0, 4, true), pattern(4));
  EXPECT_EQ(said(), "ACK 3 msn 4");
}

TEST_F(RcReceive, TheHoldOfOneQueuePairIsBounded) {
  Tuning tuning = wide();
  tuning.hold_buffers = 2 * Hold::kMaxPackets + 10;
  make(tuning);
  connect();
  for (uint32_t psn = 1; psn <= Hold::kMaxAhead + 5; ++psn) {
    wire::Headers headers = write(Op::kWriteOnly, psn, 0, 4, true);
    headers.bth.reserved7 = wire::kUnderstandsExtendedAck;
    receive(headers, pattern(4));
  }
  EXPECT_EQ(endpoint_->held_packets(), size_t{Hold::kMaxAhead});
  ASSERT_TRUE(accepted(endpoint_->destroy_qp(kQpn)));
  EXPECT_EQ(endpoint_->held_packets(), 0u);
}

// It has less under way, and the port that it sends from may be no secret.
TEST_F(RcReceive, LittleIsHeldOfAPeerThatGoesBack) {
  Tuning tuning = wide();
  tuning.hold_buffers = 2 * Hold::kMaxPackets + 10;
  make(tuning);
  connect();
  for (uint32_t psn = 1; psn <= Hold::kMaxAheadOfOthers + 5; ++psn)
    receive(write(Op::kWriteOnly, psn, 0, 4, true), pattern(4));
  EXPECT_EQ(endpoint_->held_packets(), size_t{Hold::kMaxAheadOfOthers});
  EXPECT_EQ(count(Counter::kOutOfOrderDropped), 5u);
}

// Within a host nobody forges, and all may be early: a socket was full of what somebody else sent.
TEST_F(RcReceive, WithinAHostAllIsHeld) {
  link_.same_host = true;
  Tuning tuning = wide();
  tuning.hold_buffers = 2 * Hold::kMaxPackets + 10;
  make(tuning);
  connect();
  for (uint32_t psn = 1; psn <= Hold::kMaxAheadOfOthers + 5; ++psn)
    receive(write(Op::kWriteOnly, psn, 0, 4, true), pattern(4));
  EXPECT_EQ(endpoint_->held_packets(), size_t{Hold::kMaxAheadOfOthers} + 5);
}

// The genuine one comes while the forged one waits: neither is executed before it comes again.
TEST_F(RcReceive, AForgedEarlyPacketThatDiffersFromTheGenuineOneIsNotExecuted) {
  connect();
  receive(write(Op::kWriteOnly, 0, 0, 4, true), pattern(4));
  receive(write(Op::kWriteOnly, 2, 8, 4, true), pattern(4, 66));  // forged
  receive(write(Op::kWriteOnly, 2, 8, 4, true), pattern(4, 2));
  EXPECT_EQ(endpoint_->held_packets(), 0u);
  receive(write(Op::kWriteOnly, 1, 4, 4, true), pattern(4, 1));
  EXPECT_NE(bytes_at(8, 4), pattern(4, 66));
  receive(write(Op::kWriteOnly, 2, 8, 4, true), pattern(4, 2));
  EXPECT_EQ(bytes_at(8, 4), pattern(4, 2));
}

// One guess in 2^11 would hit one of the PSNs that may be early, and be executed before the genuine
// packet with that PSN is there. From outside the path the port has to be guessed as well.
TEST_F(RcReceive, AForgedEarlyPacketIsNotExecutedInPlaceOfTheGenuineOne) {
  connect();
  peer_port_ = 50'000;
  receive(write(Op::kWriteOnly, 0, 0, 4, true), pattern(4));
  peer_port_ = 50'001;
  for (uint32_t psn = 2; psn <= 1 + Hold::kMaxAhead; ++psn) {
    receive(write(Op::kWriteOnly, psn, 4 * psn, 4, true), pattern(4, 66));
  }
  EXPECT_EQ(endpoint_->held_packets(), 0u);
  EXPECT_EQ(count(Counter::kOutOfOrderDropped), uint64_t{Hold::kMaxAhead});
  EXPECT_EQ(said(), "ACK 0 msn 1, NAK sequence 1 msn 1");
  peer_port_ = 50'000;
  for (uint32_t psn = 1; psn <= 3; ++psn) {
    receive(write(Op::kWriteOnly, psn, 4 * psn, 4, psn == 3), pattern(4, psn));
  }
  EXPECT_EQ(said(), "ACK 3 msn 4");
  for (uint32_t psn = 1; psn <= 3; ++psn) EXPECT_EQ(bytes_at(4 * psn, 4), pattern(4, psn));
  EXPECT_NE(bytes_at(16, 4), pattern(4, 66));
}

// A peer may change its port (it moved); what is early from there is held again with the next
// packet in order.
TEST_F(RcReceive, EarlyPacketsAreHeldFromThePortOfTheLastInOrder) {
  connect();
  peer_port_ = 50'000;
  receive(write(Op::kWriteOnly, 1, 4, 4, true), pattern(4));
  EXPECT_EQ(endpoint_->held_packets(), 0u) << "none came in order yet";
  receive(write(Op::kWriteOnly, 0, 0, 4, true), pattern(4));
  receive(write(Op::kWriteOnly, 2, 8, 4, true), pattern(4));
  EXPECT_EQ(endpoint_->held_packets(), 1u);
  peer_port_ = 60'000;
  receive(write(Op::kWriteOnly, 1, 4, 4, true), pattern(4));
  receive(write(Op::kWriteOnly, 4, 16, 4, true), pattern(4));
  EXPECT_EQ(endpoint_->held_packets(), 1u);
  receive(write(Op::kWriteOnly, 3, 12, 4, true), pattern(4));
  EXPECT_EQ(endpoint_->held_packets(), 0u);
}

TEST_F(RcReceive, ReorderedPacketsOfOneMessageArriveWhole) {
  connect();
  recv(1, 5000);
  const Bytes whole = pattern(4000);
  const auto part = [&](size_t i) {
    return Bytes(whole.begin() + static_cast<ptrdiff_t>(i * 1024),
                 whole.begin() + static_cast<ptrdiff_t>(std::min<size_t>((i + 1) * 1024, 4000)));
  };
  receive(request(Op::kSendLast, 3, true), part(3));
  receive(request(Op::kSendMiddle, 1), part(1));
  receive(request(Op::kSendMiddle, 2), part(2));
  receive(request(Op::kSendFirst, 0), part(0));
  EXPECT_EQ(said(), "NAK sequence 0 msn 0, ACK 3 msn 1");
  EXPECT_EQ(recvs(), "1 success 4000");
  EXPECT_EQ(bytes_at(0, 4000), whole);
}

TEST_F(RcReceive, NoReceiveDrawsAnRnrNakAndTheRetryIsTaken) {
  connect();
  receive(request(Op::kSendOnly, 0, true), pattern(5));
  EXPECT_EQ(said(), "RNR 12 0 msn 0");
  EXPECT_EQ(count(Counter::kRnrNakSent), 1u);
  // What follows is early; it is not another gap.
  receive(request(Op::kSendOnly, 1, true), pattern(6));
  EXPECT_EQ(said(), "");
  recv(1, 10);
  recv(2, 10, 100);
  receive(request(Op::kSendOnly, 0, true), pattern(5));
  EXPECT_EQ(said(), "ACK 1 msn 2");
  EXPECT_EQ(recvs(), "1 success 5, 2 success 6");
  EXPECT_EQ(state(), QpState::kRts);
}

TEST_F(RcReceive, AWriteWithImmediateWithoutReceiveIsRetriedAndWritesOnce) {
  connect();
  receive(write(Op::kWriteOnlyImm, 0, 64, 5, true), pattern(5));
  EXPECT_EQ(said(), "RNR 12 0 msn 0");
  recv(1, 0);
  receive(write(Op::kWriteOnlyImm, 0, 64, 5, true), pattern(5));
  EXPECT_EQ(said(), "ACK 0 msn 1");
  EXPECT_EQ(bytes_at(64, 5), pattern(5));
  EXPECT_EQ(recvs(), "1 success 5");
}

TEST_F(RcReceive, SendWithInvalidateEndsAWindowOfThisQueuePair) {
  connect();
  const RKey window = domain_.allocate_window(pd_, memory::WindowType::kType2).value();
  const auto bound = domain_.bind_window(window, {pd_, kQpn},
                                         {.region = keys_.lkey,
                                          .addr = kIova,
                                          .length = 100,
                                          .access = memory::kRemoteWrite,
                                          .tag = 9});
  ASSERT_TRUE(bound.has_value());
  auto through = write(Op::kWriteOnly, 0, 0, 4, true);
  through.reth.rkey = *bound;
  receive(through, pattern(4));
  EXPECT_EQ(said(), "ACK 0 msn 1");

  recv(1, 10);
  auto invalidate = request(Op::kSendOnlyInvalidate, 1, true);
  invalidate.ieth.rkey = *bound;
  receive(invalidate, pattern(3));
  ASSERT_EQ(recv_cq_.all.size(), 1u);
  EXPECT_EQ(recv_cq_.all[0].flags & kWcWithInvalidate, kWcWithInvalidate);
  EXPECT_EQ(recv_cq_.all[0].imm_or_rkey, bound->value);
  EXPECT_EQ(said(), "ACK 1 msn 2");

  through.bth.psn = rq_psn_ + 2;
  receive(through, pattern(4));
  EXPECT_EQ(said(), "NAK access 2 msn 2");
}

TEST_F(RcReceive, CommunicationEstablishedIsRaisedOnceInRtr) {
  create(init());
  to_init(defaults());
  recv(1, 10);
  recv(2, 10);
  to_rtr(defaults());
  receive(request(Op::kSendOnly, 0, true), pattern(5));
  receive(request(Op::kSendOnly, 1, true), pattern(5));
  EXPECT_THAT(happened(), ElementsAre(Event::kCommunicationEstablished));
  EXPECT_EQ(said(), "ACK 0 msn 1, ACK 1 msn 2");
  EXPECT_EQ(recvs(), "1 success 5, 2 success 5");
}

TEST_F(RcReceive, DestroyingAQueuePairSendsTheAckItOwes) {
  connect();
  take(write(Op::kWriteOnly, 0, 0, 4, true), pattern(4));
  ASSERT_TRUE(accepted(endpoint_->destroy_qp(kQpn)));
  EXPECT_EQ(said(), "ACK 0 msn 1");
  endpoint_->finish_batch(now_);
  EXPECT_EQ(said(), "");
}

}  // namespace
}  // namespace verbena::transport::testing
