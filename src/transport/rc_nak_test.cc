// SPDX-License-Identifier: Apache-2.0
// Every NAK, in both directions: which request draws which, and what each end reports.
#include <gmock/gmock.h>

#include "transport/endpoint_test_fixture.h"

namespace verbena::transport::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class RcNak : public EndpointTest {
 protected:
  // The request is refused with NAK `reason`, and the connection is over.
  void expect_refused(const wire::Headers& headers, const Bytes& payload, const char* reason,
                      Event event) {
    SCOPED_TRACE(reason);
    recv(50, 10'000, 200'000);
    recv(51, 10'000, 200'000);
    receive(headers, payload);
    EXPECT_EQ(said(), std::string("NAK ") + reason + " 0 msn 0");
    EXPECT_THAT(happened(), ElementsAre(event));
    EXPECT_EQ(recvs(), "50 flushed, 51 flushed");
    EXPECT_EQ(state(), QpState::kErr);
    // Expect silence from then on.
    receive(headers, payload);
    EXPECT_EQ(said(), "");
    ASSERT_TRUE(accepted(endpoint_->destroy_qp(kQpn)));
    connect(attr_);
  }
  void invalid(const wire::Headers& headers, const Bytes& payload = {}) {
    expect_refused(headers, payload, "invalid", Event::kQpRequestError);
  }
  void no_access(const wire::Headers& headers, const Bytes& payload = {}) {
    expect_refused(headers, payload, "access", Event::kQpAccessError);
  }
  void start(const QpAttr& attr) {
    attr_ = attr;
    connect(attr_);
  }
  QpAttr attr_ = defaults();
};

TEST_F(RcNak, InvalidRequestForAnOpcodeOutOfSequence) {
  start(defaults());
  invalid(request(Op::kSendMiddle, 0), pattern(1024));
  invalid(request(Op::kSendLast, 0), pattern(10));
  invalid(request(Op::kWriteMiddle, 0), pattern(1024));
  invalid(request(Op::kWriteLastImm, 0), pattern(10));
  EXPECT_EQ(count(Counter::kNakInvalidRequestSent), 4u);
}

TEST_F(RcNak, InvalidRequestInsideAMessage) {
  const auto inside = [this](Op first, Op second, size_t n) {
    connect();
    recv(1, 5000);
    receive(write(first, 0, 0, 3000), pattern(1024));
    receive(write(second, 1, 0, 3000), pattern(n));
    EXPECT_EQ(said(), "NAK invalid 1 msn 0");
    EXPECT_EQ(recvs(), "1 flushed");
    EXPECT_EQ(state(), QpState::kErr);
    ASSERT_TRUE(accepted(endpoint_->destroy_qp(kQpn)));
  };
  inside(Op::kSendFirst, Op::kSendFirst, 1024);
  inside(Op::kSendFirst, Op::kSendOnly, 5);
  inside(Op::kSendFirst, Op::kWriteMiddle, 1024);
  inside(Op::kSendFirst, Op::kReadRequest, 0);
  inside(Op::kSendFirst, Op::kFetchAdd, 0);
  inside(Op::kWriteFirst, Op::kSendMiddle, 1024);
  inside(Op::kWriteFirst, Op::kWriteOnly, 5);
  inside(Op::kWriteFirst, Op::kWriteFirst, 1024);
}

TEST_F(RcNak, InvalidRequestForAWrongLength) {
  start(defaults());
  invalid(request(Op::kSendFirst, 0), pattern(1023));                // First is not full
  invalid(request(Op::kSendOnly, 0), pattern(1025));                 // more than the MTU
  invalid(write(Op::kWriteOnly, 0, 0, 11), pattern(10));             // shorter than it says
  invalid(write(Op::kWriteOnly, 0, 0, 9), pattern(10));              // longer
  invalid(write(Op::kWriteOnly, 0, 0, 0), pattern(4));               // longer than nothing
  invalid(write(Op::kWriteFirst, 0, 0, 1024), pattern(1024));        // nothing left for a Last
  invalid(write(Op::kWriteFirst, 0, 0, 0x80000001), pattern(1024));  // beyond 2 GiB
  invalid(read(0, 0, 0x80000001));
}

TEST_F(RcNak, InvalidRequestForALastThatDoesNotFitItsMessage) {
  for (const size_t n : {1, 475, 477, 1024}) {
    connect();
    take(write(Op::kWriteFirst, 0, 0, 1500), pattern(1024));
    receive(write(Op::kWriteLast, 1, 0, 0, true), pattern(n));
    EXPECT_EQ(said(), "NAK invalid 1 msn 0");
    ASSERT_TRUE(accepted(endpoint_->destroy_qp(kQpn)));
  }
}

TEST_F(RcNak, InvalidRequestForWhatTheQueuePairDoesNotAllow) {
  QpAttr attr = defaults();
  attr.access = memory::kRemoteRead;
  start(attr);
  invalid(write(Op::kWriteOnly, 0, 0, 4), pattern(4));
  invalid(fetch_add(0, 0, 1));
  invalid(write(Op::kAtomicWrite, 0, 0, 8), pattern(8));
  ASSERT_TRUE(accepted(endpoint_->destroy_qp(kQpn)));
  attr.access = memory::kRemoteWrite | memory::kRemoteAtomic;
  start(attr);
  invalid(read(0, 0, 4));
  invalid(read(0, 0, 0));
}

TEST_F(RcNak, InvalidRequestForAMisalignedAtomic) {
  start(defaults());
  invalid(fetch_add(0, 4, 1));
  auto swap = request(Op::kCompareSwap, 0);
  swap.atomic_eth = {kIova + 1, keys_.rkey, 0, 0};
  invalid(swap);
  invalid(write(Op::kAtomicWrite, 0, 4, 8), pattern(8));
  invalid(write(Op::kAtomicWrite, 0, 0, 16), pattern(8));
}

TEST_F(RcNak, InvalidRequestForReadsWhereNoneWereGranted) {
  QpAttr attr = defaults();
  attr.max_dest_rd_atomic = 0;
  start(attr);
  invalid(read(0, 0, 4));
  invalid(fetch_add(0, 0, 1));
}

TEST_F(RcNak, InvalidRequestForAFlushWhichIsNotServed) {
  start(defaults());
  invalid(request(Op::kFlush, 0));
}

TEST_F(RcNak, RemoteAccessForABadKeyOrBounds) {
  start(defaults());
  auto bad = write(Op::kWriteOnly, 0, 0, 4);
  bad.reth.rkey = RKey(0xbad);
  no_access(bad, pattern(4));
  no_access(write(Op::kWriteOnly, 0, kArenaBytes - 3, 4), pattern(4));
  no_access(write(Op::kWriteFirst, 0, kArenaBytes - 2000, 3000),
            pattern(1024));  // the whole range is checked
  no_access(read(0, kArenaBytes - 3, 4));
  no_access(read(0, kArenaBytes, 1));
  no_access(fetch_add(0, kArenaBytes, 1));
  auto wrapping = read(0, 0, 100);
  wrapping.reth.address = ~uint64_t{0} - 10;
  no_access(wrapping);
  EXPECT_EQ(count(Counter::kNakRemoteAccessSent), 7u);
}

TEST_F(RcNak, RemoteAccessForAKeyThatDoesNotGrantIt) {
  Bytes extra(64);
  const auto keys = domain_
                        .register_region(pd_, {.base = extra.data(),
                                               .length = 64,
                                               .iova = kIova,
                                               .access = memory::kLocalWrite | memory::kRemoteRead})
                        .value();
  keys_ = keys;
  connect();
  receive(write(Op::kWriteOnly, 0, 0, 4, true), pattern(4));
  EXPECT_EQ(said(), "NAK access 0 msn 0");
  EXPECT_EQ(extra, Bytes(64));
}

TEST_F(RcNak, RemoteAccessWhenTheKeyDiesInTheMiddleOfAWrite) {
  connect();
  Bytes extra(4096);
  const auto keys =
      domain_
          .register_region(pd_, {.base = extra.data(), .length = 4096, .iova = 0, .access = kAll})
          .value();
  auto first = write(Op::kWriteFirst, 0, 0, 1500);
  first.reth = {0, keys.rkey, 1500};
  receive(first, pattern(1024));
  ASSERT_TRUE(domain_.deregister_region(keys.lkey).has_value());
  receive(request(Op::kWriteLast, 1, true), pattern(476));
  EXPECT_EQ(said(), "NAK access 1 msn 0");
  EXPECT_THAT(happened(), ElementsAre(Event::kQpAccessError));
}

TEST_F(RcNak, RemoteOperationalWhenTheReceiveItselfIsNotUsable) {
  connect();
  const memory::Sge bad{kIova, 100, LKey(0xdead)};
  ASSERT_TRUE(accepted(endpoint_->post_recv(kQpn, {1, {&bad, 1}})));
  recv(2, 10);
  receive(request(Op::kSendOnly, 0, true), pattern(5));
  EXPECT_EQ(said(), "NAK operational 0 msn 0");
  EXPECT_EQ(recvs(), "1 local protection error, 2 flushed");
  EXPECT_EQ(count(Counter::kNakRemoteOperationalSent), 1u);
  EXPECT_THAT(happened(), IsEmpty());
}

TEST_F(RcNak, RemoteOperationalForAnInvalidateOfWhatMayNotBe) {
  connect();
  recv(1, 10);
  auto headers = request(Op::kSendOnlyInvalidate, 0, true);
  headers.ieth.rkey = keys_.rkey;  // a region
  receive(headers, pattern(5));
  EXPECT_EQ(said(), "NAK operational 0 msn 0");
  EXPECT_EQ(state(), QpState::kErr);
}

TEST_F(RcNak, ASendLongerThanItsReceiveIsInvalidAndALocalLengthError) {
  connect();
  recv(1, 1500);
  recv(2, 1500);
  receive(request(Op::kSendFirst, 0), pattern(1024));
  receive(request(Op::kSendLast, 1, true), pattern(477));
  EXPECT_EQ(said(), "NAK invalid 1 msn 0");
  EXPECT_EQ(recvs(), "1 local length error, 2 flushed");
  EXPECT_THAT(happened(), IsEmpty());
}

// --- as requester

struct FatalNak {
  uint8_t with;
  Counter counter;
  const char* status;
};

TEST_F(RcNak, EachFatalNakFailsTheRequestItNames) {
  const FatalNak cases[] = {
      {syndrome::kNakInvalidRequest, Counter::kNakInvalidRequestReceived, "remote invalid request"},
      {syndrome::kNakRemoteAccess, Counter::kNakRemoteAccessReceived, "remote access error"},
      {syndrome::kNakRemoteOperational, Counter::kNakRemoteOperationalReceived,
       "remote operational error"},
  };
  for (const FatalNak& c : cases) {
    connect();
    recv(9, 10);
    for (uint64_t i = 1; i <= 4; ++i) send(SendOp::kWrite, i, 10);
    nak(2, c.with);  // acknowledges what is before it
    EXPECT_EQ(sends(), std::string("1 success, 2 success, 3 ") + c.status + ", 4 flushed");
    EXPECT_EQ(recvs(), "9 flushed");
    EXPECT_EQ(count(c.counter), 1u);
    EXPECT_EQ(state(), QpState::kErr);
    ack(3);
    EXPECT_EQ(count(Counter::kDropWrongState), static_cast<uint64_t>(&c - cases) + 1);
    ASSERT_TRUE(accepted(endpoint_->destroy_qp(kQpn)));
  }
}

TEST_F(RcNak, AFatalNakInsideAMessageFailsThatMessage) {
  connect();
  send(SendOp::kWrite, 1, 3000);
  nak(1, syndrome::kNakRemoteAccess);
  EXPECT_EQ(sends(), "1 remote access error");
}

TEST_F(RcNak, AReadIsFailedByItsNak) {
  connect();
  send(SendOp::kRead, 1, 3000);
  nak(0, syndrome::kNakRemoteAccess);
  EXPECT_EQ(sends(), "1 remote access error");
}

TEST_F(RcNak, AFatalNakFailsTheRequestBehindALocalOperationNotTheLocalOperation) {
  connect();
  const RKey window = domain_.allocate_window(pd_, memory::WindowType::kType1).value();
  send(SendOp::kSend, 1, 10);
  ASSERT_TRUE(accepted(post(
      {.wr_id = 2,
       .op = SendOp::kBindWindow,
       .flags = kSignaled,
       .window = window,
       .bind = {
           .region = keys_.lkey, .addr = kIova, .length = 8, .access = memory::kRemoteRead}})));
  send(SendOp::kWrite, 3, 10);
  nak(1, syndrome::kNakRemoteAccess);
  EXPECT_EQ(sends(), "1 success, 2 success, 3 remote access error");
}

TEST_F(RcNak, ASequenceNakBringsThePacketsAgain) {
  connect();
  for (uint64_t i = 1; i <= 3; ++i) send(SendOp::kSend, i, 10);
  (void)said();
  nak(1, syndrome::kNakSequence);
  EXPECT_EQ(sends(), "1 success");
  EXPECT_EQ(said(), "SEND_ONLY 1 (10) A, SEND_ONLY 2 (10) A");
  EXPECT_EQ(count(Counter::kNakSequenceReceived), 1u);
  EXPECT_EQ(count(Counter::kGoBack), 1u);
  EXPECT_EQ(count(Counter::kRetransmittedPackets), 2u);
}

}  // namespace
}  // namespace verbena::transport::testing
