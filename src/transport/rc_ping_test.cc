// SPDX-License-Identifier: Apache-2.0
// Whether an idle peer is there: it is asked, and answers, without anything being done.
#include <gmock/gmock.h>

#include "transport/endpoint_test_fixture.h"

namespace verbena::transport::testing {
namespace {

class RcPing : public EndpointTest {};

TEST_F(RcPing, AnIdlePeerIsAskedWithACopyOfWhatItAcknowledgedLast) {
  connect();
  ASSERT_TRUE(endpoint_->ping(kQpn));
  ASSERT_EQ(link_.sent.size(), 1u);
  EXPECT_EQ(link_.sent[0].view().bth.psn, Psn(kSqPsn).previous());
  EXPECT_TRUE(link_.sent[0].view().bth.ack_request);
  (void)said();
  send(SendOp::kSend, 1, 10);
  EXPECT_FALSE(endpoint_->ping(kQpn));  // the request under way asks
  ack(0);
  (void)said();
  const Time before = endpoint_->heard(kQpn);
  ASSERT_TRUE(endpoint_->ping(kQpn));
  EXPECT_EQ(said(), "SEND_ONLY 0 (0) A");
  wait(kSecond);
  ack(0);
  EXPECT_EQ(endpoint_->heard(kQpn), before + kSecond);
  EXPECT_EQ(sends(), "1 success");
  EXPECT_EQ(count(Counter::kPing), 2u);
  EXPECT_EQ(endpoint_->heard(Qpn(0x777)), kNever);
  EXPECT_FALSE(endpoint_->ping(Qpn(0x777)));
}

TEST_F(RcPing, ThePeerAnswersBeforeAnyRequestAndTakesNoReceive) {
  connect();
  recv(1, 100);
  receive(request(Op::kSendOnly, 0xffffff, true));
  EXPECT_EQ(recvs(), "");
  EXPECT_EQ(count(Counter::kDuplicateRequest), 1u);
  EXPECT_EQ(link_.sent.size(), 1u);
}

}  // namespace
}  // namespace verbena::transport::testing
