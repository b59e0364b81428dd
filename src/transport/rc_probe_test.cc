// SPDX-License-Identifier: Apache-2.0
// How the RC requester asks about a tail that nobody acknowledges, before its timeout.
#include <gmock/gmock.h>

#include "transport/endpoint_test_fixture.h"

namespace verbena::transport::testing {
namespace {

using RcProbe = EndpointTest;

TEST_F(RcProbe, ATailIsProbedBeforeTheTimeoutAndSpendsNoRetry) {
  connect(with(14, 0));
  for (uint64_t i = 1; i <= 3; ++i) send(SendOp::kSend, i, 10);
  (void)said();
  wait(Tuning{}.first_probe);
  EXPECT_EQ(said(), "SEND_ONLY 0 (10) A");
  EXPECT_EQ(count(Counter::kTailProbe), 1u);
  // The answer says how far the peer had come when the probe, sent last, reached it: the rest is
  // lost.
  ack(0);
  EXPECT_EQ(sends(), "1 success");
  EXPECT_EQ(said(), "SEND_ONLY 1 (10) A, SEND_ONLY 2 (10) A");
  ack(2);
  EXPECT_EQ(sends(), "2 success, 3 success");
  EXPECT_EQ(endpoint_->counters()[Counter::kTimeout], 0u);
}

TEST_F(RcProbe, AProbeAnsweredAboutThePacketBeforeItShowsThatTheRestIsLost) {
  connect();
  for (uint64_t i = 1; i <= 3; ++i) send(SendOp::kSend, i, 10);
  ack(0);
  (void)said();
  wait(Tuning{}.first_probe);
  EXPECT_EQ(said(), "SEND_ONLY 1 (10) A");
  ack(0);
  EXPECT_EQ(said(), "SEND_ONLY 1 (10) A, SEND_ONLY 2 (10) A");
}

TEST_F(RcProbe, ASlowPeerIsProbedAndNothingIsSentTwiceToIt) {
  connect();
  send(SendOp::kWrite, 1, 40 * 1024);
  (void)said();
  wait(Tuning{}.first_probe);
  EXPECT_EQ(said(), "WRITE_FIRST 0 (1024) A");
  // It was busy, and acknowledges what asked for it: packets 15, 31 and 39.
  for (const uint32_t psn : {15u, 31u, 39u}) {
    now_ += Tuning{}.first_probe / 2;
    ack(psn);
  }
  EXPECT_EQ(sends(), "1 success");
  // Then it comes to the probe, while something new is under way.
  send(SendOp::kSend, 2, 10);
  (void)said();
  ack(39);
  EXPECT_EQ(said(), "");
  EXPECT_EQ(endpoint_->counters()[Counter::kGoBack], 0u);
  EXPECT_EQ(count(Counter::kRetransmittedPackets), 1u);
}

TEST_F(RcProbe, TheWaitOfAProbeStaysLongUntilARoundTripWasMeasured) {
  connect();
  const Duration slow = 3 * Tuning{}.first_probe / 2;
  for (uint64_t i = 0; i < 20; ++i) {
    send(SendOp::kSend, i, 10);
    run_until(now_ + slow);
    ack(static_cast<uint32_t>(i));
  }
  // Of the first message alone: its answer could not be told from that of the copy.
  EXPECT_EQ(count(Counter::kTailProbe), 1u);
}

TEST_F(RcProbe, ProbesAreSpacedWiderAndWider) {
  connect(with(20, 0));
  send(SendOp::kSend, 1, 10);
  std::vector<Time> at;
  const Time start = now_;
  while (at.size() < 4) {
    now_ = endpoint_->next_deadline();
    const uint64_t before = endpoint_->counters()[Counter::kTailProbe];
    endpoint_->advance(now_);
    if (endpoint_->counters()[Counter::kTailProbe] > before) at.push_back(now_ - start);
  }
  EXPECT_THAT(at, ::testing::ElementsAre(5 * kMillisecond, 15 * kMillisecond, 35 * kMillisecond,
                                         75 * kMillisecond));
}

TEST_F(RcProbe, TheProbeFollowsTheRoundTripTime) {
  connect();
  for (uint64_t i = 0; i < 50; ++i) {
    send(SendOp::kSend, i, 10);
    now_ += kMillisecond;
    ack(static_cast<uint32_t>(i));
  }
  send(SendOp::kSend, 50, 10);
  wait(kMillisecond - 1);
  EXPECT_EQ(endpoint_->counters()[Counter::kTailProbe], 0u);
  wait(kMillisecond);
  EXPECT_EQ(count(Counter::kTailProbe), 1u);
}

}  // namespace
}  // namespace verbena::transport::testing
