// SPDX-License-Identifier: Apache-2.0
// A way that carries small packets and loses large ones is told from one that loses all, and from a
// peer that is slow.
#include <gtest/gtest.h>

#include "transport/endpoint_test_fixture.h"

namespace verbena::transport::testing {
namespace {

class RcBlackHole : public EndpointTest {
 protected:
  // The peer answers what arrives: requests with less than so much payload. It keeps nothing.
  void run(Time until, size_t carried) {
    while (now_ < until && sends().empty()) {
      (void)answer(carried);
      now_ = std::max(now_ + 1, std::min(until, endpoint_->next_deadline()));
      endpoint_->advance(now_);
    }
  }
  bool answer(size_t carried) {
    bool any = false;
    for (const Packet& packet : sent()) {
      const auto& view = packet.view();
      if (view.payload.size() >= carried) continue;
      any = true;
      const int32_t psn = distance(Psn(kSqPsn) + expected_, view.bth.psn);
      if (packet.op() == Op::kReadRequest) continue;  // its responses are large
      if (psn > 0) {
        nak(expected_, syndrome::kNakSequence);
      } else {
        if (psn == 0) ++expected_;
        ack(expected_ - 1);
      }
    }
    return any;
  }
  uint32_t expected_ = 0;
};

TEST_F(RcBlackHole, LargePacketsThatDoNotArriveWhileSmallOnesDoAreSaidOnce) {
  connect();
  send(SendOp::kSend, 1, 100);
  run(now_ + kSecond, 1024);
  send(SendOp::kWrite, 2, 3 * 1024);  // no packet of it is small
  run(now_ + 10 * kSecond, 1024);
  EXPECT_EQ(endpoint_->query_qp(kQpn).value().state, QpState::kErr);
  ASSERT_EQ(events_.lost.size(), 1u);
  EXPECT_EQ(events_.lost[0].peer, kThere);
  EXPECT_EQ(events_.lost[0].payload_bytes, 1024u);
  EXPECT_FALSE(events_.lost[0].incoming);
}

TEST_F(RcBlackHole, AlsoIfTheEndOfTheMessageIsSmall) {
  connect();
  send(SendOp::kSend, 1, 2 * 1024 + 10);
  run(now_ + 10 * kSecond, 1024);
  EXPECT_EQ(events_.lost.size(), 1u);
}

TEST_F(RcBlackHole, AlsoIfThereIsOnlyOneRetry) {
  connect(with(14, 1));
  send(SendOp::kSend, 1, 1024);
  run(now_ + 10 * kSecond, 1024);
  EXPECT_EQ(events_.lost.size(), 1u);
}

TEST_F(RcBlackHole, AlsoIfThereIsNoTimeout) {
  connect(with(0, 7));
  send(SendOp::kSend, 1, 1024);
  run(now_ + 10 * kSecond, 1024);
  EXPECT_EQ(endpoint_->query_qp(kQpn).value().state, QpState::kRts);
  EXPECT_EQ(events_.lost.size(), 1u);
}

TEST_F(RcBlackHole, AlsoIfResponsesAreLarge) {
  connect();
  send(SendOp::kRead, 1, 4 * 1024);
  run(now_ + 10 * kSecond, 1024);
  ASSERT_EQ(events_.lost.size(), 1u);
  EXPECT_TRUE(events_.lost[0].incoming);
}

TEST_F(RcBlackHole, APeerThatIsGoneIsNone) {
  connect();
  send(SendOp::kWrite, 1, 3 * 1024);
  run(now_ + 10 * kSecond, 0);
  EXPECT_EQ(endpoint_->query_qp(kQpn).value().state, QpState::kErr);
  EXPECT_TRUE(events_.lost.empty());
}

TEST_F(RcBlackHole, APeerThatIsNotReadyIsNone) {
  connect();
  send(SendOp::kSend, 1, 1024);
  for (int i = 0; i < 3; ++i) {
    nak(0, syndrome::kRnrNak | 1);
    run_until(now_ + kTimeout);
  }
  EXPECT_TRUE(events_.lost.empty());
}

TEST_F(RcBlackHole, SmallPacketsThatAreLostAreNone) {
  connect();
  send(SendOp::kSend, 1, 256);
  for (int i = 0; i < 3; ++i) {
    run_until(now_ + kTimeout);
    receive(response(Op::kAcknowledge, 0xffffff));
  }
  EXPECT_TRUE(events_.lost.empty());
}

TEST_F(RcBlackHole, WithinAHostThereIsNone) {
  link_.same_host = true;
  connect();
  send(SendOp::kWrite, 1, 3 * 1024);
  run(now_ + 10 * kSecond, 1024);
  EXPECT_EQ(endpoint_->query_qp(kQpn).value().state, QpState::kErr);
  EXPECT_TRUE(events_.lost.empty());
}

}  // namespace
}  // namespace verbena::transport::testing
