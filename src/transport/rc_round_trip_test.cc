// SPDX-License-Identifier: Apache-2.0
// From what the RC requester tells how long a round trip takes.
#include "transport/endpoint_test_fixture.h"

namespace verbena::transport::testing {
namespace {

using RcRoundTrip = EndpointTest;

// Karn's rule: nobody can tell of which copy an acknowledgement is. Taken for that of the last, it
// made the round trip look shorter and shorter, and what was on its way was sent again and again.
TEST_F(RcRoundTrip, TheAcknowledgementOfAnEarlierCopyMeasuresNothing) {
  connect();
  uint32_t psn = 0;
  for (; psn < 50; ++psn) {
    send(SendOp::kSend, psn, 10);
    now_ += kMillisecond;
    ack(psn);
  }
  for (; psn < 80; ++psn) {
    send(SendOp::kSend, psn, 10);
    now_ += kMillisecond;
    nak(psn, syndrome::kNakSequence);  // sent a second time
    now_ += kMillisecond;
    nak(psn, syndrome::kNakSequence);  // and a third; meanwhile the second has arrived
    now_ += kMicrosecond;
    ack(psn);
  }
  const uint64_t probes = endpoint_->counters()[Counter::kTailProbe];
  send(SendOp::kSend, psn, 10);
  wait(kMillisecond - 1);
  EXPECT_EQ(endpoint_->counters()[Counter::kTailProbe], probes);
}

TEST_F(RcRoundTrip, ARepairIsMeasuredUnlessItsAnswerComesTooSoonToBeOne) {
  connect();
  uint32_t psn = 0;
  for (; psn < 50; ++psn) {
    send(SendOp::kSend, psn, 10);
    now_ += kMillisecond;
    ack(psn);
  }
  for (; psn < 80; ++psn) {  // the first was only late
    send(SendOp::kSend, psn, 10);
    now_ += kMillisecond;
    nak(psn, syndrome::kNakSequence);
    now_ += kMicrosecond;
    ack(psn);
  }
  send(SendOp::kSend, psn, 10);
  wait(kMillisecond - 1);
  EXPECT_EQ(endpoint_->counters()[Counter::kTailProbe], 0u);
  ack(psn++);
  for (; psn < 120; ++psn) {  // all first ones are lost, and the way has become longer
    send(SendOp::kSend, psn, 10);
    now_ += kMillisecond;
    nak(psn, syndrome::kNakSequence);
    now_ += 3 * kMillisecond / 2;
    ack(psn);
  }
  const uint64_t probes = endpoint_->counters()[Counter::kTailProbe];
  send(SendOp::kSend, psn, 10);
  wait(5 * kMillisecond / 4);
  EXPECT_EQ(endpoint_->counters()[Counter::kTailProbe], probes);
}

}  // namespace
}  // namespace verbena::transport::testing
