// SPDX-License-Identifier: Apache-2.0
// What the RC requester does about loss: RNR, timeouts, going back and repairing.
#include "transport/endpoint_test_fixture.h"

namespace verbena::transport::testing {
namespace {

class RcRecovery : public EndpointTest {
 protected:
  // No probes: only the IB timeout acts.
  void without_probes() {
    Tuning tuning = wide();
    tuning.first_probe = tuning.min_probe = 500 * kMillisecond;
    make(tuning);
  }
  // Makes the requester find out that its peer keeps early packets: PSN 0 is lost, 1 and 2 are
  // held.
  void show_that_the_peer_holds() {
    Tuning tuning = wide();
    tuning.quantum = 1;  // so that the answer comes before everything is sent again
    make(tuning);
    connect();
    for (uint64_t i = 1; i <= 3; ++i) {
      send(SendOp::kSend, i, 10);
      endpoint_->advance(now_);
    }
    link_.room = 0;
    nak(0, syndrome::kNakSequence);
    link_.room = 1;
    endpoint_->advance(now_);
    ack(2);
    ASSERT_EQ(sends(), "1 success, 2 success, 3 success");
    ASSERT_EQ(count(Counter::kPeerHolds), 1u);
    link_.room = RecordingLink::kUnlimited;
    (void)said();
  }
};

TEST_F(RcRecovery, AnRnrNakWaitsAsLongAsItSays) {
  connect();
  send(SendOp::kSend, 1, 10);
  send(SendOp::kSend, 2, 10);
  (void)said();
  nak(0, syndrome::kRnrNak | 14);  // 1.28 ms
  EXPECT_EQ(said(), "");
  EXPECT_EQ(count(Counter::kRnrNakReceived), 1u);
  EXPECT_EQ(endpoint_->next_deadline(), now_ + 1280 * kMicrosecond);
  wait(1280 * kMicrosecond - 1);
  EXPECT_EQ(said(), "");
  wait(1);
  EXPECT_EQ(said(), "SEND_ONLY 0 (10) A, SEND_ONLY 1 (10) A");
}

TEST_F(RcRecovery, NothingIsSentWhileAnRnrTimerRuns) {
  connect();
  send(SendOp::kSend, 1, 10);
  send(SendOp::kSend, 2, 10);
  (void)said();
  nak(0, syndrome::kRnrNak | 14);
  send(SendOp::kSend, 3, 10);
  nak(0, syndrome::kNakSequence);  // rxe says this of what follows an RNR NAK
  ack(0x7fffff);
  EXPECT_EQ(said(), "");
  wait(1280 * kMicrosecond);
  EXPECT_EQ(said(), "SEND_ONLY 0 (10) A, SEND_ONLY 1 (10) A, SEND_ONLY 2 (10) A");
}

TEST_F(RcRecovery, NothingIsSentWhileAnRnrTimerRunsTowardsAPeerThatHolds) {
  show_that_the_peer_holds();
  send(SendOp::kSend, 4, 10);
  (void)said();
  nak(3, syndrome::kRnrNak | 14);
  nak(3, syndrome::kNakSequence);
  EXPECT_EQ(said(), "");
}

TEST_F(RcRecovery, RnrRetriesRunOut) {
  QpAttr attr = defaults();
  attr.rnr_retry = 2;
  connect(attr);
  send(SendOp::kSend, 1, 10);
  send(SendOp::kSend, 2, 10);
  for (int i = 0; i < 2; ++i) {
    nak(0, syndrome::kRnrNak | 1);
    EXPECT_EQ(sends(), "");
    wait(10 * kMicrosecond);
  }
  nak(0, syndrome::kRnrNak | 1);
  EXPECT_EQ(sends(), "1 receiver-not-ready retries exceeded, 2 flushed");
  EXPECT_EQ(count(Counter::kRnrRetryExceeded), 1u);
  EXPECT_EQ(state(), QpState::kErr);
}

TEST_F(RcRecovery, ProgressGivesRnrRetriesBackAndSevenIsForEver) {
  QpAttr attr = defaults();
  attr.rnr_retry = 1;
  connect(attr);
  send(SendOp::kSend, 1, 10);
  send(SendOp::kSend, 2, 10);
  nak(0, syndrome::kRnrNak | 1);
  wait(10 * kMicrosecond);
  nak(1, syndrome::kRnrNak | 1);  // acknowledges the first
  EXPECT_EQ(sends(), "1 success");
  wait(10 * kMicrosecond);
  ack(1);
  EXPECT_EQ(sends(), "2 success");
  ASSERT_TRUE(accepted(endpoint_->destroy_qp(kQpn)));

  attr.rnr_retry = 7;
  connect(attr);
  send(SendOp::kSend, 3, 10);
  for (int i = 0; i < 100; ++i) {
    nak(0, syndrome::kRnrNak | 1);
    wait(10 * kMicrosecond);
  }
  EXPECT_EQ(state(), QpState::kRts);
  ack(0);
  EXPECT_EQ(sends(), "3 success");
}

TEST_F(RcRecovery, EveryRnrTimerField) {
  // IBA table 45, in ms.
  const double table[32] = {655.36, .01,   .02,   .03,    .04,    .06,    .08,    .12,
                            .16,    .24,   .32,   .48,    .64,    .96,    1.28,   1.92,
                            2.56,   3.84,  5.12,  7.68,   10.24,  15.36,  20.48,  30.72,
                            40.96,  61.44, 81.92, 122.88, 163.84, 245.76, 327.68, 491.52};
  for (int i = 0; i < 32; ++i) {
    EXPECT_NEAR(static_cast<double>(rnr_timer(static_cast<uint8_t>(i))), table[i] * 1e6, 1) << i;
  }
}

TEST_F(RcRecovery, APeerThatOnlyRepeatsItsLastAckIsGivenUp) {
  connect();
  send(SendOp::kSend, 1, 10);
  send(SendOp::kSend, 2, 10);
  ack(0);
  EXPECT_EQ(sends(), "1 success");
  const Time until = now_ + 10 * kTimeout;
  while (now_ < until && state() == QpState::kRts) {
    now_ = std::max(now_, endpoint_->next_deadline());
    endpoint_->advance(now_);
    now_ += 20 * kMicrosecond;
    ack(0);
  }
  EXPECT_EQ(sends(), "2 transport retries exceeded");
}

TEST_F(RcRecovery, ATimeoutSpendsARetryAndGoesBack) {
  without_probes();
  connect();
  for (uint64_t i = 1; i <= 2; ++i) send(SendOp::kSend, i, 10);
  (void)said();
  EXPECT_EQ(endpoint_->next_deadline(), now_ + kTimeout);
  wait(kTimeout - 1);
  EXPECT_EQ(said(), "");
  wait(1);
  EXPECT_EQ(said(), "SEND_ONLY 0 (10) A, SEND_ONLY 1 (10) A");
  EXPECT_EQ(count(Counter::kTimeout), 1u);
  EXPECT_EQ(count(Counter::kRetransmittedPackets), 2u);
  ack(1);
  EXPECT_EQ(sends(), "1 success, 2 success");
  EXPECT_FALSE(endpoint_->next_deadline() < now_);
}

// Others may be using the room; a receiver that takes nothing at all is for the link to find out.
TEST_F(RcRecovery, WhatWaitsForRoomSpendsNoRetries) {
  connect(with(14, 2));
  link_.room = 0;
  send(SendOp::kSend, 1, 10);
  send(SendOp::kRead, 2, 10);
  for (int i = 0; i < 10; ++i) wait(kTimeout);
  EXPECT_EQ(sends(), "");
  EXPECT_EQ(count(Counter::kTimeout), 0u);
  EXPECT_EQ(said(), "");
}

TEST_F(RcRecovery, WhatTheLinkTakesLateCompletesAndHasAllItsRetriesAgain) {
  link_.same_host = true;  // or a round trip that long would make the timeout longer
  without_probes();
  connect(with(14, 2));
  link_.room = 0;
  send(SendOp::kSend, 1, 10);
  for (int i = 0; i < 2; ++i) wait(kTimeout);
  link_.room = RecordingLink::kUnlimited;
  endpoint_->advance(now_);
  EXPECT_EQ(said(), "SEND_ONLY 0 (10) A");
  wait(kTimeout - 1);  // the timeout runs from when it was sent
  EXPECT_EQ(said(), "");
  ack(0);
  EXPECT_EQ(sends(), "1 success");
  send(SendOp::kSend, 2, 10);
  for (int i = 0; i < 2; ++i) wait(kTimeout);
  EXPECT_EQ(sends(), "");
  wait(kTimeout);
  EXPECT_EQ(sends(), "2 transport retries exceeded");
}

TEST_F(RcRecovery, RetriesRunOutAfterTheFirstAndEachRetry) {
  without_probes();
  connect(with(14, 2));
  send(SendOp::kSend, 1, 10);
  send(SendOp::kSend, 2, 10);
  for (int i = 0; i < 2; ++i) wait(kTimeout);
  EXPECT_EQ(sends(), "");
  wait(kTimeout);
  EXPECT_EQ(sends(), "1 transport retries exceeded, 2 flushed");
  EXPECT_EQ(count(Counter::kRetryExceeded), 1u);
  EXPECT_EQ(count(Counter::kTimeout), 3u);
  EXPECT_EQ(state(), QpState::kErr);
  EXPECT_EQ(said(),
            "SEND_ONLY 0 (10) A, SEND_ONLY 1 (10) A, SEND_ONLY 0 (10) A, SEND_ONLY 1 (10) A, "
            "SEND_ONLY 0 (10) A, SEND_ONLY 1 (10) A");
}

TEST_F(RcRecovery, AReceiverThatDidNotReadYetCostsNoRetries) {
  without_probes();
  connect(with(14, 2));
  send(SendOp::kSend, 1, 10);
  link_.unread = true;
  for (int i = 0; i < 10; ++i) wait(kTimeout);
  EXPECT_EQ(sends(), "");
  EXPECT_EQ(count(Counter::kTimeout), 10u);
  // It has read, and says nothing: that is silence.
  link_.unread = false;
  for (int i = 0; i < 2; ++i) wait(kTimeout);
  EXPECT_EQ(sends(), "");
  wait(kTimeout);
  EXPECT_EQ(sends(), "1 transport retries exceeded");
}

TEST_F(RcRecovery, AReceiverThatNeverReadsIsGivenUp) {
  without_probes();
  connect(with(14, 2));
  send(SendOp::kSend, 1, 10);
  ack(0);
  EXPECT_EQ(sends(), "1 success");
  wait(Tuning{}.unread_patience);  // idle: that does not count
  send(SendOp::kSend, 2, 10);
  link_.unread = true;
  wait(kTimeout);
  wait(Tuning{}.unread_patience - 1);
  EXPECT_EQ(sends(), "");
  for (int i = 0; i < 2; ++i) wait(kTimeout);
  EXPECT_EQ(sends(), "");
  wait(kTimeout);
  EXPECT_EQ(sends(), "2 transport retries exceeded");
}

TEST_F(RcRecovery, WithoutRetriesTheFirstTimeoutFails) {
  without_probes();
  connect(with(1, 0));
  send(SendOp::kRead, 1, 10);
  wait(8192);
  EXPECT_EQ(sends(), "1 transport retries exceeded");
}

TEST_F(RcRecovery, ProgressGivesRetriesBackAndRestartsTheTimeout) {
  without_probes();
  connect(with(14, 1));
  send(SendOp::kSend, 1, 2000);
  wait(kTimeout);
  wait(kTimeout - 1);
  ack(0);
  wait(kTimeout - 1);
  EXPECT_EQ(count(Counter::kTimeout), 1u);
  wait(1);
  EXPECT_EQ(count(Counter::kTimeout), 2u);
  EXPECT_EQ(sends(), "");
}

TEST_F(RcRecovery, TimeoutZeroIsNever) {
  without_probes();
  connect(with(0, 0));
  send(SendOp::kSend, 1, 10);
  run_until(now_ + 3600 * kSecond);
  EXPECT_EQ(endpoint_->counters()[Counter::kTimeout], 0u);
  EXPECT_EQ(state(), QpState::kRts);
}

TEST_F(RcRecovery, TimeoutsAreTheStandards) {
  EXPECT_EQ(ack_timeout(0), kNever);
  EXPECT_EQ(ack_timeout(1), 8192);
  EXPECT_EQ(ack_timeout(14), 67'108'864);
  EXPECT_EQ(ack_timeout(31), Duration{4096} << 31);
}

TEST_F(RcRecovery, APeerThatAcknowledgesMoreThanWasSentAgainIsOneThatHolds) {
  show_that_the_peer_holds();
  for (uint64_t i = 4; i <= 8; ++i) {
    send(SendOp::kSend, i, 10);
    endpoint_->advance(now_);
  }
  (void)said();
  // Expect one packet, not the whole tail.
  nak(4, syndrome::kNakSequence);
  EXPECT_EQ(said(), "SEND_ONLY 4 (10) A");
  EXPECT_EQ(count(Counter::kRepair), 1u);
  ack(7);
  EXPECT_EQ(sends(), "4 success, 5 success, 6 success, 7 success, 8 success");
}

TEST_F(RcRecovery, ARepairOfTheRequestBehindALocalOperation) {
  show_that_the_peer_holds();
  const RKey window = domain_.allocate_window(pd_, memory::WindowType::kType1).value();
  const SendRequest bind{
      .wr_id = 5,
      .op = SendOp::kBindWindow,
      .flags = kSignaled,
      .window = window,
      .bind = {.region = keys_.lkey, .addr = kIova, .length = 8, .access = memory::kRemoteRead}};
  send(SendOp::kSend, 4, 10);
  ASSERT_TRUE(accepted(post(bind)));
  send(SendOp::kSend, 6, 10);
  (void)said();
  nak(4, syndrome::kNakSequence);
  EXPECT_EQ(sends(), "4 success, 5 success");
  EXPECT_EQ(said(), "SEND_ONLY 4 (10) A");
}

TEST_F(RcRecovery, TwoRepairsInARowShowABurstAndItGoesBack) {
  show_that_the_peer_holds();
  for (uint64_t i = 4; i <= 8; ++i) {
    send(SendOp::kSend, i, 10);
    endpoint_->advance(now_);
  }
  (void)said();
  nak(3, syndrome::kNakSequence);
  EXPECT_EQ(said(), "SEND_ONLY 3 (10) A");
  const uint64_t before = count(Counter::kGoBack);
  nak(4, syndrome::kNakSequence);
  EXPECT_EQ(count(Counter::kGoBack), before + 1);
}

TEST_F(RcRecovery, ATimeoutForgetsThatThePeerHolds) {
  show_that_the_peer_holds();
  send(SendOp::kSend, 4, 10);
  send(SendOp::kSend, 5, 10);
  endpoint_->advance(now_);
  run_until(now_ + kTimeout);
  (void)said();
  const uint64_t repairs = count(Counter::kRepair);
  nak(3, syndrome::kNakSequence);
  EXPECT_EQ(endpoint_->counters()[Counter::kRepair], repairs);
}

TEST_F(RcRecovery, AReadRequestLostTowardsAPeerThatDropsWhatIsEarlyTakesAllBehindItAlong) {
  connect();
  send(SendOp::kRead, 1, 10);
  send(SendOp::kSend, 2, 10);
  (void)said();
  nak(0, syndrome::kNakSequence);
  EXPECT_EQ(said(), "READ_REQUEST 0 [36864 +10], SEND_ONLY 1 (10) A");
}

TEST_F(RcRecovery, ManyLossesInOneWindowNarrowItAndEachWindowAcknowledgedWidensIt) {
  Tuning tuning = wide();
  tuning.paced.initial_bytes = 20 * (1024 + kPacketOverhead);
  make(tuning);
  link_.same_host = true;
  connect();
  send(SendOp::kWrite, 1, 300 * 1024);
  EXPECT_EQ(sent().size(), 20u);
  // Two in a window may happen on any link.
  nak(0, syndrome::kNakSequence);
  EXPECT_EQ(sent().size(), 20u);
  nak(0, syndrome::kNakSequence);
  EXPECT_EQ(sent().size(), 20u);
  nak(0, syndrome::kNakSequence);
  EXPECT_EQ(sent().size(), 15u);  // three quarters
  nak(0, syndrome::kNakSequence);
  EXPECT_EQ(sent().size(), 15u);  // once per window
  uint32_t psn = 0;
  size_t most = 0;
  for (int i = 0; i < 15; ++i) {
    psn += 15;
    ack(psn - 1);
    most = std::max(most, sent().size());
  }
  EXPECT_GT(most, 15u);
}

TEST_F(RcRecovery, AnOldAckAfterGoingBackIsTakenForWhatItIs) {
  Tuning tuning = wide();
  tuning.first_probe = 500 * kMillisecond;
  make(tuning);
  connect();
  send(SendOp::kSend, 1, 4 * 1024);
  link_.room = 1;
  wait(kTimeout);  // goes back, and only one packet finds room
  (void)said();
  ack(2);
  link_.room = RecordingLink::kUnlimited;
  endpoint_->advance(now_);
  EXPECT_EQ(said(), "SEND_LAST 3 (1024) A");
  ack(3);
  EXPECT_EQ(sends(), "1 success");
}

TEST_F(RcRecovery, ARepairWithoutRoomGoesBeforeAnythingNew) {
  connect();
  send(SendOp::kSend, 1, 10);
  EXPECT_EQ(said(), "SEND_ONLY 0 (10) A");
  link_.room = 0;
  wait(5 * kMillisecond);  // the probe
  EXPECT_EQ(count(Counter::kTailProbe), 1u);
  send(SendOp::kSend, 2, 10);
  EXPECT_EQ(said(), "");
  EXPECT_EQ(endpoint_->next_deadline(), 0);
  link_.room = RecordingLink::kUnlimited;
  endpoint_->advance(now_);
  EXPECT_EQ(said(), "SEND_ONLY 0 (10) A, SEND_ONLY 1 (10) A");
}

TEST_F(RcRecovery, ARepairWithoutRoomIsForgottenWhenItIsNoLongerMissed) {
  connect();
  send(SendOp::kSend, 1, 10);
  (void)sent();
  link_.room = 0;
  wait(5 * kMillisecond);
  ack(0);
  EXPECT_EQ(sends(), "1 success");
  link_.room = RecordingLink::kUnlimited;
  endpoint_->advance(now_);
  EXPECT_EQ(said(), "");
}

}  // namespace
}  // namespace verbena::transport::testing
