// SPDX-License-Identifier: Apache-2.0
// UC: no acknowledgement; a lost packet drops its message, and the next First or Only starts
// afresh.
#include <gmock/gmock.h>

#include "transport/endpoint_test_fixture.h"

namespace verbena::transport::testing {
namespace {

class Uc : public EndpointTest {
 protected:
  void connect_uc(QpAttr attr = defaults()) { connect(attr, QpType::kUc); }
  wire::Headers uc(Op op, uint32_t psn, size_t offset = 0, size_t whole = 0) const {
    auto headers = write(op, psn, offset, whole);
    headers.bth.opcode = wire::opcode_byte(wire::Service::kUc, op);
    return headers;
  }
};

TEST_F(Uc, SendsCompleteWhenTheLinkHasThem) {
  connect_uc();
  send(SendOp::kSend, 1, 2000);
  send(SendOp::kWriteImm, 2, 10);
  EXPECT_EQ(link_.sent[0].info().service, wire::Service::kUc);
  EXPECT_EQ(said(), "SEND_FIRST 0 (1024), SEND_LAST 1 (976), WRITE_ONLY_IMM 2 (10)");
  EXPECT_EQ(sends(), "1 success, 2 success");
  EXPECT_EQ(endpoint_->next_deadline(), kNever);
}

TEST_F(Uc, AFullLinkHoldsSendsBack) {
  connect_uc();
  link_.room = 1;
  send(SendOp::kSend, 1, 2000);
  EXPECT_EQ(sends(), "");
  EXPECT_EQ(endpoint_->next_deadline(), 0);
  link_.room = RecordingLink::kUnlimited;
  endpoint_->advance(now_);
  EXPECT_EQ(sends(), "1 success");
  EXPECT_EQ(said(), "SEND_FIRST 0 (1024), SEND_LAST 1 (976)");
}

TEST_F(Uc, OnlySendsAndWritesAreOffered) {
  connect_uc();
  const memory::Sge sge = at(0, 8);
  EXPECT_TRUE(refused(post({.op = SendOp::kRead}, {sge}), Error::kInvalid));
  EXPECT_TRUE(refused(post({.op = SendOp::kFetchAdd}, {sge}), Error::kInvalid));
  EXPECT_TRUE(refused(post({.op = SendOp::kSendInvalidate}, {sge}), Error::kInvalid));
}

TEST_F(Uc, MessagesAreReceivedAndNothingIsAnswered) {
  connect_uc();
  recv(1, 4000);
  take(uc(Op::kSendFirst, 0), pattern(1024));
  receive(uc(Op::kSendLast, 1), pattern(10));
  receive(uc(Op::kWriteOnly, 2, 5000, 20), pattern(20));
  EXPECT_EQ(recvs(), "1 success 1034");
  EXPECT_EQ(bytes_at(5000, 20), pattern(20));
  EXPECT_EQ(said(), "");
}

TEST_F(Uc, ALostMiddleDropsTheMessageAndItsReceiveServesTheNext) {
  connect_uc();
  recv(1, 4000);
  recv(2, 4000, 10'000);
  take(uc(Op::kSendFirst, 0), pattern(1024));
  take(uc(Op::kSendLast, 2), pattern(10));
  EXPECT_EQ(recvs(), "");
  EXPECT_EQ(count(Counter::kUcMessageDropped), 1u);
  receive(uc(Op::kSendOnly, 3), pattern(7, 3));
  EXPECT_EQ(recvs(), "1 success 7");
  EXPECT_EQ(bytes_at(0, 7), pattern(7, 3));
  EXPECT_EQ(state(), QpState::kRts);
}

TEST_F(Uc, ALostFirstDropsTheMessage) {
  connect_uc();
  recv(1, 4000);
  take(uc(Op::kSendMiddle, 1), pattern(1024));
  take(uc(Op::kSendLast, 2), pattern(10));
  EXPECT_EQ(count(Counter::kUcMessageDropped), 1u);
  receive(uc(Op::kSendOnly, 3), pattern(7));
  EXPECT_EQ(recvs(), "1 success 7");
}

TEST_F(Uc, ALostLastDropsTheMessageWhenTheNextBegins) {
  connect_uc();
  recv(1, 4000);
  take(uc(Op::kSendFirst, 0), pattern(1024));
  receive(uc(Op::kSendOnly, 2), pattern(7));
  EXPECT_EQ(count(Counter::kUcMessageDropped), 1u);
  EXPECT_EQ(recvs(), "1 success 7");
}

TEST_F(Uc, ANewFirstInsideAMessageDropsTheOldOne) {
  connect_uc();
  recv(1, 4000);
  take(uc(Op::kSendFirst, 0), pattern(1024));
  receive(uc(Op::kSendOnly, 1), pattern(7));
  EXPECT_EQ(count(Counter::kUcMessageDropped), 1u);
  EXPECT_EQ(recvs(), "1 success 7");
}

TEST_F(Uc, DuplicatesAreDropped) {
  connect_uc();
  recv(1, 10);
  recv(2, 10, 100);
  receive(uc(Op::kSendOnly, 0), pattern(5));
  receive(uc(Op::kSendOnly, 0), pattern(5));
  EXPECT_EQ(count(Counter::kDuplicateRequest), 1u);
  EXPECT_EQ(recvs(), "1 success 5");
}

TEST_F(Uc, BadRequestsAreDroppedAndTheNextMessageIsTaken) {
  connect_uc();
  recv(1, 1000, 2000);
  auto bad = uc(Op::kWriteOnly, 0, 0, 4);
  bad.reth.rkey = RKey(0xbad);
  receive(bad, pattern(4));                                        // key
  receive(uc(Op::kWriteOnly, 1, kArenaBytes - 3, 4), pattern(4));  // bounds
  receive(uc(Op::kWriteFirst, 2, 0, 2000), pattern(1023));         // First is not full
  receive(uc(Op::kSendFirst, 3), pattern(1024));                   // longer than the receive
  receive(uc(Op::kSendLast, 4), pattern(1024));                    // and the rest of it: silently
  EXPECT_EQ(count(Counter::kUcRequestDropped), 4u);
  EXPECT_EQ(state(), QpState::kRts);
  receive(uc(Op::kSendOnly, 5), pattern(7));
  EXPECT_EQ(recvs(), "1 success 7");
  receive(uc(Op::kSendOnly, 6), pattern(7));  // no receive
  receive(uc(Op::kSendMiddle, 7), pattern(1024));
  EXPECT_EQ(count(Counter::kUcRequestDropped), 5u);
  EXPECT_EQ(said(), "");
}

TEST_F(Uc, AReceiveWithABadKeyEndsInErrorAndTheQueuePairToo) {
  connect_uc();
  const memory::Sge bad{kIova, 100, LKey(0xdead)};
  ASSERT_TRUE(accepted(endpoint_->post_recv(kQpn, {1, {&bad, 1}})));
  recv(2, 100);
  receive(uc(Op::kSendOnly, 0), pattern(5));
  EXPECT_EQ(recvs(), "1 local protection error, 2 flushed");
  EXPECT_EQ(state(), QpState::kErr);
  EXPECT_EQ(count(Counter::kUcRequestDropped), 1u);
}

TEST_F(Uc, AMiddleWithoutFirstInSequenceIsABadRequest) {
  connect_uc();
  receive(uc(Op::kSendMiddle, 0), pattern(1024));
  EXPECT_EQ(count(Counter::kUcRequestDropped), 1u);
}

TEST_F(Uc, PsnsWrap) {
  QpAttr attr = defaults();
  attr.rq_psn = Psn(0xffffff);
  attr.sq_psn = Psn(0xffffff);
  connect_uc(attr);
  recv(1, 4000);
  take(uc(Op::kSendFirst, 0), pattern(1024));
  receive(uc(Op::kSendLast, 1), pattern(10));
  EXPECT_EQ(recvs(), "1 success 1034");
  send(SendOp::kSend, 1, 2000);
  EXPECT_EQ(said(), "SEND_FIRST 0 (1024), SEND_LAST 1 (976)");
}

TEST_F(Uc, ABadKeyBringsSqeTheReceiveSideGoesOnAndRtsIsRegained) {
  connect_uc();
  recv(9, 10);
  link_.room = 0;
  send(SendOp::kSend, 1, 10);
  const memory::Sge bad{kIova, 10, LKey(0xdead)};
  ASSERT_TRUE(accepted(post({.wr_id = 2}, {bad})));
  send(SendOp::kSend, 3, 10);
  link_.room = RecordingLink::kUnlimited;
  endpoint_->advance(now_);
  EXPECT_EQ(sends(), "1 success, 2 local protection error, 3 flushed");
  EXPECT_EQ(state(), QpState::kSqe);
  send(SendOp::kSend, 4, 10);
  EXPECT_EQ(sends(), "4 flushed");
  receive(uc(Op::kSendOnly, 0), pattern(5));
  EXPECT_EQ(recvs(), "9 success 5");
  (void)said();
  ASSERT_TRUE(accepted(modify(QpState::kRts)));
  send(SendOp::kSend, 5, 10);
  EXPECT_EQ(sends(), "5 success");
  EXPECT_THAT(said(), ::testing::StartsWith("SEND_ONLY"));
}

}  // namespace
}  // namespace verbena::transport::testing
