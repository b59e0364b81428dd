// SPDX-License-Identifier: Apache-2.0
// A queue pair's states: what may be posted in each, draining, errors, flushing, reset.
#include <functional>

#include <gmock/gmock.h>

#include "transport/endpoint_test_fixture.h"
#include "transport/posting.h"

namespace verbena::transport::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class QpStates : public EndpointTest {
 protected:
  Result<void, Error> drain() {
    QpAttr attr;
    attr.sqd_notify = true;
    return modify(QpState::kSqd, kAttrSqdNotify, attr);
  }
};

TEST_F(QpStates, PostingInTheWrongState) {
  create(init());
  const memory::Sge sge = at(0, 10);
  const RecvRequest receive_request{1, {&sge, 1}};
  EXPECT_TRUE(refused(post({.wr_id = 1}, {sge}), Error::kInvalid));
  EXPECT_TRUE(refused(endpoint_->post_recv(kQpn, receive_request), Error::kInvalid));
  to_init(defaults());
  EXPECT_TRUE(refused(post({.wr_id = 1}, {sge}), Error::kInvalid));
  EXPECT_TRUE(accepted(endpoint_->post_recv(kQpn, receive_request)));
  to_rtr(defaults());
  EXPECT_TRUE(refused(post({.wr_id = 1}, {sge}), Error::kInvalid));
  EXPECT_TRUE(accepted(endpoint_->post_recv(kQpn, receive_request)));
  to_rts(defaults());
  EXPECT_TRUE(accepted(post({.wr_id = 1}, {sge})));
  EXPECT_TRUE(refused(post({.wr_id = 1, .op = SendOp::kFlush}, {sge}), Error::kUnsupported));
  EXPECT_TRUE(refused(post({.wr_id = 1}, {sge}, Qpn(99)), Error::kNoSuchQp));
  EXPECT_TRUE(refused(endpoint_->post_recv(Qpn(99), receive_request), Error::kNoSuchQp));
}

TEST_F(QpStates, PacketsInAStateThatDoesNotReceiveAreDropped) {
  create(init());
  receive(request(Op::kSendOnly, 0), pattern(5));
  to_init(defaults());
  receive(request(Op::kSendOnly, 0), pattern(5));
  EXPECT_EQ(count(Counter::kDropWrongState), 2u);
  to_rtr(defaults());
  ack(0);  // nothing was sent, nor could be
  EXPECT_EQ(count(Counter::kDropWrongState), 3u);
  to_rts(defaults());
  ASSERT_TRUE(accepted(modify(QpState::kErr)));
  receive(request(Op::kSendOnly, 0), pattern(5));
  EXPECT_EQ(count(Counter::kDropWrongState), 4u);
  EXPECT_EQ(said(), "");
}

TEST_F(QpStates, AFullSendQueueRefuses) {
  QpInit small = init();
  small.send.max_entries = 3;
  create(small);
  bring_up(defaults());
  for (uint64_t i = 1; i <= 3; ++i) send(SendOp::kSend, i, 1);
  const memory::Sge sge = at(0, 1);
  EXPECT_TRUE(refused(post({.wr_id = 4}, {sge}), Error::kQueueFull));
  ack(0);
  EXPECT_TRUE(accepted(post({.wr_id = 4, .flags = kSignaled}, {sge})));
  EXPECT_TRUE(refused(post({.wr_id = 5}, {sge}), Error::kQueueFull));
  ack(3);
  EXPECT_EQ(sends(), "1 success, 2 success, 3 success, 4 success");
}

TEST_F(QpStates, AFullReceiveQueueRefusesAndSoDoTooLongLists) {
  QpInit small = init();
  small.max_recv_entries = 2;
  small.max_recv_sge = 1;
  create(small);
  bring_up(defaults());
  const memory::Sge list[] = {at(0, 1), at(0, 1), at(0, 1), at(0, 1), at(0, 1)};
  EXPECT_TRUE(refused(endpoint_->post_recv(kQpn, {1, {list, 2}}), Error::kInvalid));
  recv(1, 10);
  recv(2, 10);
  EXPECT_TRUE(refused(endpoint_->post_recv(kQpn, {3, {list, 1}}), Error::kQueueFull));
  receive(request(Op::kSendOnly, 0), pattern(5));
  EXPECT_TRUE(accepted(endpoint_->post_recv(kQpn, {3, {list, 1}})));
  EXPECT_TRUE(refused(post({}, {list[0], list[1], list[2], list[3], list[4]}), Error::kInvalid));
}

TEST_F(QpStates, DrainingFinishesWhatWasBegunAndStartsNothing) {
  Tuning tuning = wide();
  tuning.flight.max_packets = 2;
  make(tuning);
  connect();
  send(SendOp::kSend, 1, 3 * 1024);
  send(SendOp::kSend, 2, 10);
  EXPECT_EQ(said(), "SEND_FIRST 0 (1024), SEND_MIDDLE 1 (1024) A");
  ASSERT_TRUE(accepted(drain()));
  EXPECT_THAT(happened(), IsEmpty());
  send(SendOp::kSend, 3, 10);
  ack(1);
  EXPECT_EQ(said(), "SEND_LAST 2 (1024) A");
  ack(2);
  EXPECT_EQ(sends(), "1 success");
  EXPECT_EQ(said(), "");
  EXPECT_THAT(happened(), ElementsAre(Event::kSqDrained));
  ASSERT_TRUE(accepted(modify(QpState::kRts)));
  EXPECT_EQ(said(), "SEND_ONLY 3 (10) A, SEND_ONLY 4 (10) A");
  ack(4);
  EXPECT_EQ(sends(), "2 success, 3 success");
  EXPECT_THAT(happened(), IsEmpty());
}

TEST_F(QpStates, AnIdleQueueIsDrainedAtOnce) {
  connect();
  ASSERT_TRUE(accepted(drain()));
  EXPECT_THAT(happened(), ElementsAre(Event::kSqDrained));
}

TEST_F(QpStates, DrainingSaysSoOnlyWhenAsked) {
  connect();
  ASSERT_TRUE(accepted(modify(QpState::kSqd)));
  EXPECT_THAT(happened(), IsEmpty());
  ASSERT_TRUE(accepted(modify(QpState::kRts)));
  ASSERT_TRUE(accepted(drain()));
  EXPECT_THAT(happened(), ElementsAre(Event::kSqDrained));
  ASSERT_TRUE(accepted(modify(QpState::kRts)));
  ASSERT_TRUE(accepted(modify(QpState::kSqd)));
  EXPECT_THAT(happened(), IsEmpty());
}

TEST_F(QpStates, DrainedReceivesGoOnAndRetransmissionsHappen) {
  connect();
  send(SendOp::kSend, 1, 10);
  ASSERT_TRUE(accepted(drain()));
  (void)said();
  receive(write(Op::kWriteOnly, 0, 0, 4, true), pattern(4));
  EXPECT_EQ(said(), "ACK 0 msn 1");
  wait(5 * kMillisecond);
  EXPECT_EQ(said(), "SEND_ONLY 0 (10) A");
  ack(0);
  EXPECT_THAT(happened(), ElementsAre(Event::kSqDrained));
}

TEST_F(QpStates, ThePathChangesOnlyWhenDrained) {
  connect();
  send(SendOp::kSend, 1, 10);
  ASSERT_TRUE(accepted(drain()));
  QpAttr attr;
  attr.path = {.source = kHere, .destination = wire::Gid::from_ipv4(10, 0, 0, 3)};
  attr.timeout = 5;
  EXPECT_TRUE(refused(modify(QpState::kSqd, kAttrPath | kAttrTimeout, attr), Error::kInvalid));
  ack(0);
  EXPECT_TRUE(accepted(modify(QpState::kSqd, kAttrPath | kAttrTimeout, attr)));
  ASSERT_TRUE(accepted(modify(QpState::kRts)));
  (void)said();
  send(SendOp::kSend, 2, 10);
  EXPECT_EQ(link_.sent[0].path.destination, attr.path.destination);
}

TEST_F(QpStates, AMessageHalfSentIsNotDrained) {
  for (const QpType type : {QpType::kRc, QpType::kUc}) {
    connect(defaults(), type);
    link_.room = 1;
    send(SendOp::kSend, 1, 2000);
    if (type == QpType::kRc) ack(0);  // all that was sent
    ASSERT_TRUE(accepted(drain()));
    EXPECT_TRUE(refused(modify(QpState::kSqd, kAttrPath, defaults()), Error::kInvalid));
    EXPECT_THAT(happened(), IsEmpty());
    ASSERT_TRUE(accepted(endpoint_->destroy_qp(kQpn)));
  }
}

TEST_F(QpStates, AReadThatMayNeverLeaveFails) {
  connect();
  ASSERT_TRUE(accepted(modify(QpState::kSqd)));
  send(SendOp::kSend, 1, 10);
  send(SendOp::kRead, 2, 10);
  QpAttr attr = defaults();
  attr.max_rd_atomic = 0;
  ASSERT_TRUE(accepted(modify(QpState::kSqd, kAttrMaxRdAtomic, attr)));
  ASSERT_TRUE(accepted(modify(QpState::kRts)));
  ack(0);
  EXPECT_EQ(sends(), "1 success, 2 local QP operation error");
  EXPECT_EQ(state(), QpState::kErr);
}

TEST_F(QpStates, RetriesThatSqdGrantsCountFromThenOn) {
  QpAttr attr = defaults();
  attr.timeout = 1;
  attr.retry_count = attr.rnr_retry = 0;
  connect(attr);
  ASSERT_TRUE(accepted(modify(QpState::kSqd)));
  attr.retry_count = attr.rnr_retry = 1;
  ASSERT_TRUE(accepted(modify(QpState::kSqd, kAttrRetryCount | kAttrRnrRetry, attr)));
  ASSERT_TRUE(accepted(modify(QpState::kRts)));
  send(SendOp::kSend, 1, 10);
  nak(0, syndrome::kRnrNak | 1);
  wait(10 * kMicrosecond);
  wait(ack_timeout(1));
  EXPECT_EQ(sends(), "");
  EXPECT_EQ(state(), QpState::kRts);
  wait(ack_timeout(1));
  EXPECT_EQ(sends(), "1 transport retries exceeded");
}

TEST_F(QpStates, ErrorFlushesBothQueuesInOrderAndOnce) {
  connect();
  for (uint64_t i = 1; i <= 3; ++i) send(SendOp::kSend, i, 10);
  const memory::Sge sge = at(0, 1);
  ASSERT_TRUE(accepted(post({.wr_id = 4}, {sge})));  // unsignaled: reported all the same
  for (uint64_t i = 11; i <= 12; ++i) recv(i, 10);
  ack(0);
  ASSERT_TRUE(accepted(modify(QpState::kErr)));
  EXPECT_EQ(sends(), "1 success, 2 flushed, 3 flushed, 4 flushed");
  EXPECT_EQ(recvs(), "11 flushed, 12 flushed");
  // What is posted now is flushed at once; nothing is ever reported twice.
  send(SendOp::kSend, 5, 10);
  recv(13, 10);
  EXPECT_EQ(sends(), "5 flushed");
  EXPECT_EQ(recvs(), "13 flushed");
  (void)said();
  ASSERT_TRUE(accepted(modify(QpState::kErr)));
  ack(2);
  run_until(now_ + kSecond);
  EXPECT_EQ(sends() + recvs() + said(), "");
}

TEST_F(QpStates, AReceiveInUseIsFlushedFirst) {
  connect();
  recv(1, 5000);
  recv(2, 5000);
  receive(request(Op::kSendFirst, 0), pattern(1024));
  ASSERT_TRUE(accepted(modify(QpState::kErr)));
  EXPECT_EQ(recvs(), "1 flushed, 2 flushed");
}

TEST_F(QpStates, ErrorGivesHeldPacketsBackAndSendsTheAckOwed) {
  connect();
  take(write(Op::kWriteOnly, 0, 0, 4, true), pattern(4));
  take(write(Op::kWriteOnly, 2, 0, 4, true), pattern(4));
  (void)said();
  EXPECT_EQ(endpoint_->held_packets(), 1u);
  take(write(Op::kWriteOnly, 0, 0, 4, true), pattern(4));  // an ACK is owed
  ASSERT_TRUE(accepted(modify(QpState::kErr)));
  EXPECT_EQ(endpoint_->held_packets(), 0u);
  endpoint_->finish_batch(now_);
  EXPECT_EQ(said(), "ACK 0 msn 1");
}

TEST_F(QpStates, ErrorStopsRepliesUnderWay) {
  connect();
  link_.room = 1;
  receive(read(0, 0, 4000));
  (void)said();
  link_.room = RecordingLink::kUnlimited;
  ASSERT_TRUE(accepted(modify(QpState::kErr)));
  endpoint_->advance(now_);
  EXPECT_EQ(said(), "");
}

TEST_F(QpStates, ResetForgetsEverythingSilentlyAndTheQueuePairServesAgain) {
  connect();
  send(SendOp::kSend, 1, 3000);
  send(SendOp::kRead, 2, 10);
  recv(11, 10);
  receive(write(Op::kWriteOnly, 1, 0, 4, true), pattern(4));  // held
  take(fetch_add(0, 64, 1));
  ASSERT_TRUE(accepted(modify(QpState::kReset)));
  endpoint_->finish_batch(now_);
  run_until(now_ + kSecond);
  EXPECT_EQ(sends() + recvs(), "");
  EXPECT_EQ(endpoint_->held_packets(), 0u);
  (void)said();

  QpAttr attr = defaults();
  attr.sq_psn = Psn(0x500);
  attr.rq_psn = Psn(0x600);
  bring_up(attr);
  send(SendOp::kSend, 3, 10);
  EXPECT_EQ(said(), "SEND_ONLY 0 (10) A");
  ack(0);
  EXPECT_EQ(sends(), "3 success");
  recv(12, 10);
  receive(request(Op::kSendOnly, 0, true), pattern(5));
  EXPECT_EQ(said(), "ACK 0 msn 1");
  EXPECT_EQ(recvs(), "12 success 5");
}

TEST_F(QpStates, ErrorFromAnyStateAndResetFromError) {
  create(init());
  ASSERT_TRUE(accepted(modify(QpState::kErr)));
  ASSERT_TRUE(accepted(modify(QpState::kReset)));
  to_init(defaults());
  recv(1, 10);
  ASSERT_TRUE(accepted(modify(QpState::kErr)));
  EXPECT_EQ(recvs(), "1 flushed");
  ASSERT_TRUE(accepted(modify(QpState::kReset)));
  bring_up(defaults());
  EXPECT_EQ(state(), QpState::kRts);
}

TEST_F(QpStates, ATimerOfADestroyedQueuePairDoesNothing) {
  connect();
  send(SendOp::kSend, 1, 10);
  ASSERT_TRUE(accepted(endpoint_->destroy_qp(kQpn)));
  run_until(now_ + kSecond);
  EXPECT_EQ(sends(), "");
  EXPECT_TRUE(refused(endpoint_->destroy_qp(kQpn), Error::kNoSuchQp));
}

// Another thread may be about to post to it, or have posted and wait for the endpoint.
TEST_F(QpStates, ADestroyedQueuePairRefusesWhatIsPosted) {
  connect();
  QueuePair& qp = *endpoint_->queue_pair(kQpn);
  const auto destroyed = endpoint_->destroy_qp(kQpn);
  ASSERT_TRUE(accepted(destroyed));
  EXPECT_EQ(destroyed->get(), &qp);
  const SendRequest request{.wr_id = 1};
  EXPECT_TRUE(refused(posting::append(qp, request, 4096), Error::kInvalid));
  EXPECT_TRUE(refused(posting::append_all(qp, {&request, 1}, 4096), Error::kInvalid));
  EXPECT_TRUE(refused(posting::append(qp, RecvRequest{1, {}}), Error::kInvalid));
  endpoint_->on_posted(qp, now_);
  endpoint_->on_posted_receives(qp);
  EXPECT_EQ(endpoint_->next_deadline(), kNever);
  make();  // it outlives its endpoint
}

// As its owner, in another thread, may do while it is flushed.
class PostsAgain final : public CompletionQueue {
 public:
  void push(const Completion&) override {
    constexpr uint32_t kMost = 1000;
    if (++pushed < kMost) post();
  }
  std::function<void()> post;
  uint32_t pushed = 0;
};

TEST_F(QpStates, FlushingEndsThoughMoreIsPosted) {
  PostsAgain sends;
  PostsAgain recvs;
  QpInit made = init();
  made.send_cq = &sends;
  made.recv_cq = &recvs;
  create(made);
  bring_up(defaults());
  QueuePair& qp = *endpoint_->queue_pair(kQpn);
  sends.post = [&] {
    ASSERT_TRUE(accepted(posting::append(qp, SendRequest{}, 4096)));
    endpoint_->doorbells().ring(qp);
  };
  recvs.post = [&] {
    ASSERT_TRUE(accepted(posting::append(qp, RecvRequest{1, {}})));
    ASSERT_TRUE(posting::must_ring(qp));
    endpoint_->doorbells().ring(qp);
  };
  ASSERT_TRUE(accepted(post(SendRequest{})));
  ASSERT_TRUE(accepted(endpoint_->post_recv(kQpn, {1, {}})));
  ASSERT_TRUE(accepted(modify(QpState::kErr)));
  EXPECT_EQ(sends.pushed, 1u);
  EXPECT_EQ(recvs.pushed, 1u);
  endpoint_->answer_doorbells(now_);
  EXPECT_EQ(sends.pushed, 2u);
  EXPECT_EQ(recvs.pushed, 2u);
}

}  // namespace
}  // namespace verbena::transport::testing
