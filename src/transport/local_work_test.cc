// SPDX-License-Identifier: Apache-2.0
// Binds and local invalidations: carried out in order, reported in order, never on the wire.
#include "transport/endpoint_test_fixture.h"

namespace verbena::transport::testing {
namespace {

class LocalWork : public EndpointTest {
 protected:
  SendRequest bind(uint64_t wr_id, RKey window, uint8_t tag, uint64_t length = 64) const {
    return {.wr_id = wr_id,
            .op = SendOp::kBindWindow,
            .flags = kSignaled,
            .window = window,
            .bind = {.region = keys_.lkey,
                     .addr = kIova,
                     .length = length,
                     .access = memory::kRemoteWrite,
                     .tag = tag}};
  }
  static SendRequest invalidate(uint64_t wr_id, RKey rkey) {
    return {.wr_id = wr_id, .op = SendOp::kLocalInvalidate, .flags = kSignaled, .invalidate = rkey};
  }
  bool usable(RKey rkey) {
    return domain_.check_remote({pd_, kQpn}, rkey, RemoteAddr(kIova), 4, memory::kRemoteWrite) ==
           memory::Fault::kNone;
  }
  RKey window(memory::WindowType type) { return domain_.allocate_window(pd_, type).value(); }
  static RKey tagged(RKey window, uint8_t tag) { return RKey((window.value & ~0xffu) | tag); }
};

TEST_F(LocalWork, ABindTakesEffectAndCompletesAtOnce) {
  connect();
  const RKey mw = window(memory::WindowType::kType2);
  ASSERT_TRUE(accepted(post(bind(1, mw, 7))));
  ASSERT_EQ(send_cq_.all.size(), 1u);
  EXPECT_EQ(send_cq_.all[0].opcode, WcOpcode::kBindMw);
  EXPECT_EQ(sends(), "1 success");
  EXPECT_TRUE(usable(tagged(mw, 7)));
  EXPECT_EQ(said(), "");
  ASSERT_TRUE(accepted(post(invalidate(2, tagged(mw, 7)))));
  EXPECT_EQ(send_cq_.all[0].opcode, WcOpcode::kLocalInvalidate);
  EXPECT_EQ(sends(), "2 success");
  EXPECT_FALSE(usable(tagged(mw, 7)));
}

TEST_F(LocalWork, ABindIsReportedAfterWhatStandsBeforeIt) {
  connect();
  const RKey mw = window(memory::WindowType::kType2);
  send(SendOp::kSend, 1, 10);
  ASSERT_TRUE(accepted(post(bind(2, mw, 7))));
  send(SendOp::kSend, 3, 10);
  EXPECT_EQ(sends(), "");
  EXPECT_EQ(said(), "SEND_ONLY 0 (10) A, SEND_ONLY 1 (10) A");
  ack(0);
  EXPECT_EQ(sends(), "1 success, 2 success");
  ack(1);
  EXPECT_EQ(sends(), "3 success");
}

TEST_F(LocalWork, OneAckOverSendsAndLocalWork) {
  connect();
  const RKey mw = window(memory::WindowType::kType2);
  send(SendOp::kSend, 1, 10);
  ASSERT_TRUE(accepted(post(bind(2, mw, 7))));
  ASSERT_TRUE(accepted(post(invalidate(3, tagged(mw, 7)))));
  send(SendOp::kSend, 4, 10);
  ASSERT_TRUE(accepted(post(bind(5, tagged(mw, 7), 8))));
  ack(1);
  EXPECT_EQ(sends(), "1 success, 2 success, 3 success, 4 success, 5 success");
}

TEST_F(LocalWork, GoingBackDoesNotBindAgain) {
  connect();
  const RKey mw = window(memory::WindowType::kType2);
  send(SendOp::kSend, 1, 10);
  ASSERT_TRUE(accepted(post(bind(2, mw, 7))));  // a second bind of a bound window would fail
  send(SendOp::kSend, 3, 10);
  (void)said();
  nak(0, syndrome::kNakSequence);
  EXPECT_EQ(said(), "SEND_ONLY 0 (10) A, SEND_ONLY 1 (10) A");
  ack(1);
  EXPECT_EQ(sends(), "1 success, 2 success, 3 success");
  EXPECT_TRUE(usable(tagged(mw, 7)));
}

TEST_F(LocalWork, AFencedInvalidateWaitsForTheReadsBeforeIt) {
  connect();
  const RKey mw = window(memory::WindowType::kType2);
  ASSERT_TRUE(accepted(post(bind(1, mw, 7))));
  send(SendOp::kRead, 2, 10);
  SendRequest fenced = invalidate(3, tagged(mw, 7));
  fenced.flags |= kFence;
  ASSERT_TRUE(accepted(post(fenced)));
  EXPECT_TRUE(usable(tagged(mw, 7)));
  read_response(Op::kReadResponseOnly, 0, pattern(10));
  EXPECT_FALSE(usable(tagged(mw, 7)));
  EXPECT_EQ(sends(), "1 success, 2 success, 3 success");
}

TEST_F(LocalWork, ABindThatMayNotBeFailsInItsTurn) {
  connect();
  const RKey mw = window(memory::WindowType::kType2);
  send(SendOp::kSend, 1, 10);
  ASSERT_TRUE(accepted(post(bind(2, mw, 7, kArenaBytes + 1))));
  send(SendOp::kSend, 3, 10);
  EXPECT_EQ(said(), "SEND_ONLY 0 (10) A");
  EXPECT_EQ(sends(), "");
  ack(0);
  EXPECT_EQ(sends(), "1 success, 2 memory window bind error, 3 flushed");
  EXPECT_EQ(state(), QpState::kErr);
}

TEST_F(LocalWork, AnInvalidateOfARegionFails) {
  connect();
  ASSERT_TRUE(accepted(post(invalidate(1, keys_.rkey))));
  EXPECT_EQ(sends(), "1 memory window bind error");
}

TEST_F(LocalWork, OnUcAFailedBindIsAnSqe) {
  connect(defaults(), QpType::kUc);
  const RKey mw = window(memory::WindowType::kType1);
  ASSERT_TRUE(accepted(post(bind(1, mw, 0))));
  EXPECT_EQ(sends(), "1 success");
  ASSERT_TRUE(accepted(post(bind(2, mw, 0, kArenaBytes + 1))));
  EXPECT_EQ(sends(), "2 memory window bind error");
  EXPECT_EQ(state(), QpState::kSqe);
}

TEST_F(LocalWork, APeerWritesThroughABoundWindow) {
  connect();
  const RKey mw = window(memory::WindowType::kType2);
  ASSERT_TRUE(accepted(post(bind(1, mw, 7))));
  auto headers = write(Op::kWriteOnly, 0, 0, 4, true);
  headers.reth.rkey = tagged(mw, 7);
  receive(headers, pattern(4));
  EXPECT_EQ(said(), "ACK 0 msn 1");
  EXPECT_EQ(bytes_at(0, 4), pattern(4));
}

}  // namespace
}  // namespace verbena::transport::testing
