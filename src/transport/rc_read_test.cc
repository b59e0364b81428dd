// SPDX-License-Identifier: Apache-2.0
// The RC requester's READs and atomics: what is asked for, what is taken, and what is asked for
// again.
#include <gmock/gmock.h>

#include "transport/endpoint_test_fixture.h"

namespace verbena::transport::testing {
namespace {

class RcRead : public EndpointTest {
 protected:
  static Bytes part(const Bytes& whole, size_t from, size_t n) {
    return Bytes(whole.begin() + static_cast<ptrdiff_t>(from),
                 whole.begin() + static_cast<ptrdiff_t>(from + n));
  }
  void post_atomic(uint64_t wr_id, SendOp op, size_t local, uint64_t compare_add,
                   uint64_t swap = 0) {
    const memory::Sge sge = at(local, 8);
    ASSERT_TRUE(accepted(post({.wr_id = wr_id,
                               .op = op,
                               .flags = kSignaled,
                               .remote_addr = RemoteAddr(0x9000),
                               .rkey = RKey(0x5555),
                               .compare_add = compare_add,
                               .swap = swap},
                              {sge})));
  }
  // Small windows, so that a READ needs several segments: 4 packets each with max_rd_atomic 2.
  void connect_with_short_segments(uint8_t max_rd_atomic = 2) {
    Tuning tuning = wide();
    tuning.flight.max_bytes = tuning.flight.initial_bytes = 8 * (1024 + kPacketOverhead);
    make(tuning);
    QpAttr attr = defaults();
    attr.max_rd_atomic = max_rd_atomic;
    connect(attr);
  }
};

TEST_F(RcRead, AReadOfEveryBoundarySizeAtEveryMtu) {
  for (const Mtu mtu : {Mtu::k256, Mtu::k512, Mtu::k1024, Mtu::k2048, Mtu::k4096}) {
    QpAttr attr = defaults();
    attr.mtu = mtu;
    connect(attr);
    const uint32_t m = mtu_bytes(mtu);
    uint32_t psn = 0;
    for (const uint32_t n : {0u, 1u, m - 1, m, m + 1, 2 * m, 2 * m + 1}) {
      const Bytes data = pattern(n, psn);
      send(SendOp::kRead, n, n, 0);
      EXPECT_EQ(said(),
                "READ_REQUEST " + std::to_string(psn) + " [36864 +" + std::to_string(n) + "]");
      const uint32_t packets = n == 0 ? 1 : (n + m - 1) / m;
      for (uint32_t i = 0; i < packets; ++i) {
        EXPECT_EQ(sends(), "");
        const bool last = i + 1 == packets;
        const Op op = packets == 1 ? Op::kReadResponseOnly
                      : i == 0     ? Op::kReadResponseFirst
                      : last       ? Op::kReadResponseLast
                                   : Op::kReadResponseMiddle;
        read_response(op, psn + i, part(data, i * m, last ? n - i * m : m));
      }
      EXPECT_EQ(sends(), std::to_string(n) + " success");
      EXPECT_EQ(bytes_at(0, n), data);
      psn += packets;
    }
    ASSERT_TRUE(accepted(endpoint_->destroy_qp(kQpn)));
  }
}

TEST_F(RcRead, TheCompletionSaysRead) {
  connect();
  send(SendOp::kRead, 1, 3);
  read_response(Op::kReadResponseOnly, 0, pattern(3));
  ASSERT_EQ(send_cq_.all.size(), 1u);
  EXPECT_EQ(send_cq_.all[0].opcode, WcOpcode::kRead);
  EXPECT_EQ(send_cq_.all[0].byte_len, 3u);
}

TEST_F(RcRead, ALongReadIsAskedForInSegments) {
  connect_with_short_segments();
  send(SendOp::kRead, 1, 10 * 1024 + 5);
  // Two segments of four are all that max_rd_atomic and the window allow.
  EXPECT_EQ(said(), "READ_REQUEST 0 [36864 +4096], READ_REQUEST 4 [40960 +4096]");
  const Bytes data = pattern(10 * 1024 + 5);
  for (uint32_t i = 0; i < 4; ++i)
    read_response(Op::kReadResponseMiddle, i, part(data, i * 1024, 1024));
  EXPECT_EQ(said(), "READ_REQUEST 8 [45056 +2053]");
  for (uint32_t i = 4; i < 10; ++i)
    read_response(Op::kReadResponseMiddle, i, part(data, i * 1024, 1024));
  read_response(Op::kReadResponseLast, 10, part(data, 10240, 5));
  EXPECT_EQ(sends(), "1 success");
  EXPECT_EQ(bytes_at(0, data.size()), data);
}

TEST_F(RcRead, NoMoreReadsAndAtomicsAreOutThanGranted) {
  QpAttr attr = defaults();
  attr.max_rd_atomic = 2;
  connect(attr);
  send(SendOp::kRead, 1, 10);
  post_atomic(2, SendOp::kFetchAdd, 64, 1);
  send(SendOp::kRead, 3, 10);
  send(SendOp::kSend, 4, 10);
  EXPECT_EQ(said(), "READ_REQUEST 0 [36864 +10], FETCH_ADD 1 A");
  read_response(Op::kReadResponseOnly, 0, pattern(10));
  EXPECT_EQ(said(), "READ_REQUEST 2 [36864 +10], SEND_ONLY 3 (10) A");
}

TEST_F(RcRead, ReadsNeedAGrant) {
  QpAttr attr = defaults();
  attr.max_rd_atomic = 0;
  connect(attr);
  const memory::Sge sge = at(0, 8);
  EXPECT_TRUE(refused(post({.op = SendOp::kRead}, {sge}), Error::kInvalid));
  EXPECT_TRUE(refused(post({.op = SendOp::kFetchAdd}, {sge}), Error::kInvalid));
}

// Found when the answer comes, as on a ConnectX and rxe: what the peer refuses is another error.
TEST_F(RcRead, AReadIntoMemoryThatMayNotBeWrittenFailsWithItsAnswer) {
  connect();
  Bytes extra(64);
  const auto keys =
      domain_.register_region(pd_, {.base = extra.data(), .length = 64, .iova = 0, .access = 0})
          .value();
  const memory::Sge sge{0, 64, keys.lkey};
  ASSERT_TRUE(accepted(post({.wr_id = 1, .op = SendOp::kRead}, {sge})));
  EXPECT_NE(said(), "");
  EXPECT_EQ(sends(), "");
  read_response(Op::kReadResponseOnly, 0, pattern(64));
  EXPECT_EQ(sends(), "1 local protection error");
  EXPECT_EQ(extra, Bytes(64)) << "nothing was written";
}

TEST_F(RcRead, MemoryThatDiedUnderAReadIsAProtectionError) {
  connect();
  Bytes extra(64);
  const auto keys =
      domain_.register_region(pd_, {.base = extra.data(), .length = 64, .iova = 0, .access = kAll})
          .value();
  const memory::Sge sge{0, 64, keys.lkey};
  ASSERT_TRUE(accepted(post({.wr_id = 1, .op = SendOp::kRead}, {sge})));
  ASSERT_TRUE(domain_.deregister_region(keys.lkey).has_value());
  read_response(Op::kReadResponseOnly, 0, pattern(64));
  EXPECT_EQ(sends(), "1 local protection error");
  EXPECT_EQ(extra, Bytes(64));
}

TEST_F(RcRead, AtomicsBringBackWhatWasThere) {
  connect();
  post_atomic(1, SendOp::kFetchAdd, 64, 5);
  post_atomic(2, SendOp::kCompareSwap, 72, 10, 20);
  ASSERT_EQ(link_.sent.size(), 2u);
  const wire::AtomicEth add = link_.sent[0].view().atomic_eth();
  EXPECT_EQ(add.swap_add, 5u);
  EXPECT_EQ(add.address, 0x9000u);
  EXPECT_EQ(add.rkey, RKey(0x5555));
  const wire::AtomicEth swap = link_.sent[1].view().atomic_eth();
  EXPECT_EQ(swap.swap_add, 20u);
  EXPECT_EQ(swap.compare, 10u);
  EXPECT_EQ(said(), "FETCH_ADD 0 A, COMPARE_SWAP 1 A");
  atomic_ack(0, 0x1122334455667788);
  atomic_ack(1, 77);
  EXPECT_EQ(word_at(64), 0x1122334455667788u);
  EXPECT_EQ(word_at(72), 77u);
  EXPECT_EQ(send_cq_.all[0].opcode, WcOpcode::kFetchAdd);
  EXPECT_EQ(send_cq_.all[1].opcode, WcOpcode::kCompareSwap);
  EXPECT_EQ(sends(), "1 success, 2 success");
}

TEST_F(RcRead, AtomicWriteIsAnsweredByAnEmptyReadResponse) {
  connect();
  fill(64, pattern(8));
  send(SendOp::kAtomicWrite, 1, 8, 64);
  EXPECT_EQ(link_.sent[0].payload(), pattern(8));
  EXPECT_EQ(link_.sent[0].view().reth().length, 8u);
  EXPECT_EQ(said(), "ATOMIC_WRITE 0 (8) A");
  read_response(Op::kReadResponseOnly, 0, {});
  EXPECT_EQ(sends(), "1 success");
}

TEST_F(RcRead, AResponseAcknowledgesTheSendsBeforeIt) {
  connect();
  send(SendOp::kSend, 1, 10);
  send(SendOp::kWrite, 2, 2000);
  send(SendOp::kRead, 3, 10);
  read_response(Op::kReadResponseOnly, 3, pattern(10));
  EXPECT_EQ(sends(), "1 success, 2 success, 3 success");
}

TEST_F(RcRead, AnAckPastAnUnansweredReadIsAGapAndTheReadIsAskedForAgain) {
  connect();
  send(SendOp::kRead, 1, 10);
  send(SendOp::kSend, 2, 10);
  (void)said();
  ack(1);
  EXPECT_EQ(sends(), "");
  EXPECT_EQ(count(Counter::kReadResponseGap), 1u);
  EXPECT_EQ(count(Counter::kRepair), 1u);
  EXPECT_EQ(said(), "READ_REQUEST 0 [36864 +10]");
  ack(1);  // the repair is on its way
  EXPECT_EQ(said(), "");
  read_response(Op::kReadResponseOnly, 0, pattern(10));
  EXPECT_EQ(sends(), "1 success");
  ack(1);
  EXPECT_EQ(sends(), "2 success");
}

TEST_F(RcRead, AMissingResponseIsAskedForAloneAndTheOthersWereHeld) {
  connect();
  const Bytes data = pattern(4 * 1024);
  send(SendOp::kRead, 1, data.size());
  (void)said();
  now_ += 8 * kMillisecond;
  read_response(Op::kReadResponseFirst, 0, part(data, 0, 1024));
  read_response(Op::kReadResponseMiddle, 2, part(data, 2048, 1024));
  // It may only be late, by a quarter of the round trip. Expect then only what is missing: one
  // packet, from where it is missing.
  EXPECT_EQ(said(), "");
  wait(2 * kMillisecond - 1);
  EXPECT_EQ(said(), "");
  wait(1);
  EXPECT_EQ(said(), "READ_REQUEST 1 [37888 +1024]");
  EXPECT_EQ(count(Counter::kReadResponseHeld), 1u);
  EXPECT_EQ(count(Counter::kReadResponseGap), 1u);
  read_response(Op::kReadResponseLast, 3, part(data, 3072, 1024));
  EXPECT_EQ(said(), "");
  EXPECT_EQ(endpoint_->held_packets(), 2u);
  read_response(Op::kReadResponseOnly, 1, part(data, 1024, 1024));
  EXPECT_EQ(sends(), "1 success");
  EXPECT_EQ(bytes_at(0, data.size()), data);
  EXPECT_EQ(endpoint_->held_packets(), 0u);
}

TEST_F(RcRead, AForgedEarlyResponseIsNotTakenForTheGenuineOne) {
  connect();
  const Bytes data = pattern(4 * 1024);
  send(SendOp::kRead, 1, data.size());
  peer_port_ = 50'000;
  read_response(Op::kReadResponseFirst, 0, part(data, 0, 1024));
  peer_port_ = 50'001;
  read_response(Op::kReadResponseMiddle, 2, pattern(1024, 66));
  EXPECT_EQ(endpoint_->held_packets(), 0u);
  peer_port_ = 50'000;
  for (uint32_t psn = 1; psn < 3; ++psn) {
    read_response(Op::kReadResponseMiddle, psn, part(data, psn * 1024, 1024));
  }
  read_response(Op::kReadResponseLast, 3, part(data, 3072, 1024));
  EXPECT_EQ(sends(), "1 success");
  EXPECT_EQ(bytes_at(0, data.size()), data);
}

// As when what is read changes meanwhile, or one is forged. None of the two is there any more, and
// what is missing is asked for again before there is silence.
TEST_F(RcRead, AResponseThatDiffersFromTheOneHeldIsAskedForAgain) {
  connect();
  const Bytes data = pattern(5 * 1024);
  send(SendOp::kRead, 1, data.size());
  (void)said();
  now_ += 8 * kMillisecond;
  read_response(Op::kReadResponseFirst, 0, part(data, 0, 1024));
  read_response(Op::kReadResponseMiddle, 3, part(data, 3 * 1024, 1024));
  wait(2 * kMillisecond);
  EXPECT_EQ(said(), "READ_REQUEST 1 [37888 +2048]");
  read_response(Op::kReadResponseMiddle, 3, pattern(1024, 66));
  EXPECT_EQ(endpoint_->held_packets(), 0u);
  EXPECT_EQ(said(), "READ_REQUEST 3 [39936 +1024]");
  read_response(Op::kReadResponseFirst, 1, part(data, 1024, 1024));
  read_response(Op::kReadResponseLast, 2, part(data, 2048, 1024));
  read_response(Op::kReadResponseOnly, 3, part(data, 3 * 1024, 1024));
  read_response(Op::kReadResponseLast, 4, part(data, 4 * 1024, 1024));
  EXPECT_EQ(sends(), "1 success");
  EXPECT_EQ(bytes_at(0, data.size()), data);
}

TEST_F(RcRead, AReadResumesAtTheLostResponse) {
  connect();
  const Bytes data = pattern(3 * 1024);
  send(SendOp::kRead, 1, data.size());
  (void)said();
  read_response(Op::kReadResponseFirst, 0, part(data, 0, 1024));
  // The tail is lost; the probe asks for the rest only.
  run_until(now_ + 10 * kMillisecond);
  EXPECT_THAT(said(), ::testing::StartsWith("READ_REQUEST 1 [37888 +2048]"));
  read_response(Op::kReadResponseFirst, 1, part(data, 1024, 1024));
  read_response(Op::kReadResponseLast, 2, part(data, 2048, 1024));
  EXPECT_EQ(sends(), "1 success");
  EXPECT_EQ(bytes_at(0, data.size()), data);
}

TEST_F(RcRead, AHeldResponseBehindSendsAcknowledgesThem) {
  connect();
  send(SendOp::kRead, 1, 10, 0);
  send(SendOp::kSend, 2, 10, 100);
  send(SendOp::kRead, 3, 10, 200);
  read_response(Op::kReadResponseOnly, 2, pattern(10, 2));
  EXPECT_EQ(sends(), "");
  EXPECT_EQ(endpoint_->held_packets(), 1u);
  read_response(Op::kReadResponseOnly, 0, pattern(10, 1));
  EXPECT_EQ(sends(), "1 success, 2 success, 3 success");
  EXPECT_EQ(bytes_at(0, 10), pattern(10, 1));
  EXPECT_EQ(bytes_at(200, 10), pattern(10, 2));
}

TEST_F(RcRead, AResponseBehindALocalOperationIsTaken) {
  connect();
  const RKey window = domain_.allocate_window(pd_, memory::WindowType::kType1).value();
  const SendRequest bind{
      .wr_id = 2,
      .op = SendOp::kBindWindow,
      .flags = kSignaled,
      .window = window,
      .bind = {.region = keys_.lkey, .addr = kIova, .length = 8, .access = memory::kRemoteRead}};
  send(SendOp::kSend, 1, 10);
  ASSERT_TRUE(accepted(post(bind)));
  send(SendOp::kRead, 3, 10);
  read_response(Op::kReadResponseOnly, 1, pattern(10));
  EXPECT_EQ(sends(), "1 success, 2 success, 3 success");
}

TEST_F(RcRead, AnAtomicLostIsSentAgainAsItWas) {
  connect();
  post_atomic(1, SendOp::kFetchAdd, 64, 5);
  (void)said();
  run_until(now_ + 6 * kMillisecond);
  EXPECT_EQ(said(), "FETCH_ADD 0 A");
  atomic_ack(0, 1);
  EXPECT_EQ(sends(), "1 success");
}

TEST_F(RcRead, WhatWasNotAskedForIsMalformed) {
  connect();
  send(SendOp::kRead, 1, 10);
  post_atomic(2, SendOp::kFetchAdd, 64, 5);
  send(SendOp::kSend, 3, 10);
  read_response(Op::kReadResponseOnly, 0, pattern(9));   // too short
  read_response(Op::kReadResponseOnly, 0, pattern(11));  // too long
  atomic_ack(0, 1);                                      // not an atomic
  receive(response(Op::kReadResponseOnly, 0, syndrome::kNakRemoteAccess),
          pattern(10));  // data and a NAK
  EXPECT_EQ(count(Counter::kResponseMalformed), 4u);
  read_response(Op::kReadResponseOnly, 0, pattern(10));
  read_response(Op::kReadResponseOnly, 1, pattern(8));  // not a READ
  EXPECT_EQ(count(Counter::kResponseMalformed), 5u);
  atomic_ack(1, 1);
  read_response(Op::kReadResponseOnly, 2, pattern(10));  // for a SEND
  EXPECT_EQ(count(Counter::kResponseMalformed), 6u);
  EXPECT_EQ(sends(), "1 success, 2 success");
  ack(2);
  EXPECT_EQ(sends(), "3 success");
}

TEST_F(RcRead, AHeldResponseThatIsMalformedMakesRoomForTheRightOne) {
  connect();
  send(SendOp::kRead, 1, 4 * 1024);
  const Bytes part = pattern(1024);
  read_response(Op::kReadResponseMiddle, 1, part);
  read_response(Op::kReadResponseMiddle, 2, Bytes(1000));
  read_response(Op::kReadResponseLast, 3, part);
  EXPECT_EQ(count(Counter::kReadResponseHeld), 3u);
  read_response(Op::kReadResponseFirst, 0, part);
  EXPECT_EQ(count(Counter::kResponseMalformed), 1u);
  EXPECT_EQ(sends(), "");
  read_response(Op::kReadResponseMiddle, 2, part);
  EXPECT_EQ(sends(), "1 success");
  EXPECT_EQ(bytes_at(2 * 1024, 1024), part);
}

TEST_F(RcRead, AFenceWaitsForReadsAndAtomicsBeforeIt) {
  connect();
  send(SendOp::kRead, 1, 10);
  post_atomic(2, SendOp::kFetchAdd, 64, 1);
  send(SendOp::kSend, 3, 10);
  send(SendOp::kSend, 4, 10, 0, 0, kFence);
  send(SendOp::kSend, 5, 10);
  EXPECT_EQ(said(), "READ_REQUEST 0 [36864 +10], FETCH_ADD 1 A, SEND_ONLY 2 (10) A");
  read_response(Op::kReadResponseOnly, 0, pattern(10));
  EXPECT_EQ(said(), "");
  atomic_ack(1, 0);
  EXPECT_EQ(said(), "SEND_ONLY 3 (10) A, SEND_ONLY 4 (10) A");
}

TEST_F(RcRead, AFenceHoldsAcrossALossOfTheRead) {
  connect();
  send(SendOp::kRead, 1, 10);
  send(SendOp::kSend, 2, 10, 0, 0, kFence);
  (void)said();
  nak(0, syndrome::kNakSequence);
  EXPECT_EQ(said(), "READ_REQUEST 0 [36864 +10]");
  wait(ack_timeout(14));
  EXPECT_EQ(said(), "READ_REQUEST 0 [36864 +10]");
  read_response(Op::kReadResponseOnly, 0, pattern(10));
  EXPECT_EQ(said(), "SEND_ONLY 1 (10) A");
}

TEST_F(RcRead, ReadResponsesWrap) {
  QpAttr attr = defaults();
  attr.sq_psn = Psn(0xffffff);
  connect(attr);
  const Bytes data = pattern(3 * 1024);
  send(SendOp::kRead, 1, data.size());
  read_response(Op::kReadResponseFirst, 0, part(data, 0, 1024));
  read_response(Op::kReadResponseMiddle, 1, part(data, 1024, 1024));
  read_response(Op::kReadResponseLast, 2, part(data, 2048, 1024));
  EXPECT_EQ(sends(), "1 success");
  EXPECT_EQ(bytes_at(0, data.size()), data);
}

}  // namespace
}  // namespace verbena::transport::testing
