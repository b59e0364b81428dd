// SPDX-License-Identifier: Apache-2.0
// Shared receive queues: first come, first served; the limit event, and the last receive of a queue
// pair.
#include <gmock/gmock.h>

#include "transport/endpoint_test_fixture.h"
#include "transport/posting.h"

namespace verbena::transport::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class Srq : public EndpointTest {
 protected:
  static constexpr Qpn kOther{0x12};

  void connect_two(uint32_t entries = 8) {
    srq_ = endpoint_->create_srq(pd_, entries, 2).value();
    QpInit with_srq = init();
    with_srq.srq = srq_;
    create(with_srq);
    create(with_srq, kOther);
    bring_up(defaults());
    bring_up(defaults(), QpType::kRc, kOther);
  }
  void post_shared(uint64_t wr_id, size_t n = 100) {
    const memory::Sge sge = at(wr_id * 1000, n);
    ASSERT_TRUE(accepted(endpoint_->post_srq_recv(srq_->id, {wr_id, {&sge, 1}})));
  }
  void send_to(Qpn qpn, uint32_t psn, Op op = Op::kSendOnly, size_t n = 5) {
    auto headers = request(op, psn, true);
    headers.bth.dest_qp = qpn;
    receive(headers, pattern(n));
  }
  SharedRecvQueue* srq_ = nullptr;
};

TEST_F(Srq, ReceivesAreTakenInOrderByWhoeverNeedsThem) {
  connect_two();
  for (uint64_t i = 1; i <= 4; ++i) post_shared(i);
  send_to(kOther, 0);
  send_to(kQpn, 0);
  send_to(kQpn, 1);
  send_to(kOther, 1);
  EXPECT_EQ(recv_cq_.all[0].qpn, kOther);
  EXPECT_EQ(recv_cq_.all[1].qpn, kQpn);
  EXPECT_EQ(recvs(), "1 success 5, 2 success 5, 3 success 5, 4 success 5");
  (void)said();
  send_to(kQpn, 2);
  EXPECT_EQ(said(), "RNR 12 2 msn 2");
}

TEST_F(Srq, MessagesOfTwoQueuePairsDoNotMix) {
  connect_two();
  post_shared(1, 3000);
  post_shared(5, 3000);
  send_to(kQpn, 0, Op::kSendFirst, 1024);
  send_to(kOther, 0, Op::kSendFirst, 1024);
  send_to(kOther, 1, Op::kSendLast, 10);
  send_to(kQpn, 1, Op::kSendLast, 20);
  EXPECT_EQ(recvs(), "5 success 1034, 1 success 1044");
}

TEST_F(Srq, TheLimitIsReportedOnceUntilArmedAgain) {
  connect_two();
  for (uint64_t i = 1; i <= 5; ++i) post_shared(i);
  ASSERT_TRUE(accepted(endpoint_->arm_srq_limit(srq_->id, 4)));
  EXPECT_THAT(happened(), IsEmpty());
  send_to(kQpn, 0);  // four are left: not below the limit
  EXPECT_THAT(happened(), IsEmpty());
  send_to(kQpn, 1);
  ASSERT_EQ(events_.all.size(), 1u);
  EXPECT_EQ(events_.all[0].second, srq_->id.value);
  EXPECT_THAT(happened(), ElementsAre(Event::kSrqLimitReached));
  send_to(kQpn, 2);
  EXPECT_THAT(happened(), IsEmpty());
  ASSERT_TRUE(accepted(endpoint_->arm_srq_limit(srq_->id, 2)));
  EXPECT_THAT(happened(), IsEmpty());
  send_to(kQpn, 3);
  EXPECT_THAT(happened(), ElementsAre(Event::kSrqLimitReached));
}

TEST_F(Srq, ALimitAboveWhatIsThereIsReportedAtOnce) {
  connect_two();
  post_shared(1);
  ASSERT_TRUE(accepted(endpoint_->arm_srq_limit(srq_->id, 2)));
  EXPECT_THAT(happened(), ElementsAre(Event::kSrqLimitReached));
  EXPECT_TRUE(refused(endpoint_->arm_srq_limit(srq_->id, 9), Error::kInvalid));
}

TEST_F(Srq, AQueuePairThatFailsSaysThatItsLastReceiveIsDone) {
  connect_two();
  post_shared(1, 3000);
  post_shared(2);
  send_to(kQpn, 0, Op::kSendFirst, 1024);
  ASSERT_TRUE(accepted(modify(QpState::kErr)));
  EXPECT_EQ(recvs(), "1 flushed");  // the one in use; the others stay for the others
  EXPECT_THAT(happened(), ElementsAre(Event::kQpLastWqeReached));
  send_to(kOther, 0);
  EXPECT_EQ(recvs(), "2 success 5");
}

TEST_F(Srq, AQueuePairWithASharedQueueHasNoneOfItsOwn) {
  connect_two();
  const memory::Sge sge = at(0, 10);
  EXPECT_TRUE(refused(endpoint_->post_recv(kQpn, {1, {&sge, 1}}), Error::kInvalid));
}

TEST_F(Srq, ItIsBounded) {
  connect_two(2);
  post_shared(1);
  post_shared(2);
  const memory::Sge list[] = {at(0, 1), at(0, 1), at(0, 1)};
  EXPECT_TRUE(refused(endpoint_->post_srq_recv(srq_->id, {3, {list, 1}}), Error::kQueueFull));
  EXPECT_TRUE(refused(endpoint_->post_srq_recv(srq_->id, {3, {list, 3}}), Error::kInvalid));
  EXPECT_TRUE(refused(endpoint_->post_srq_recv(SrqId(1), {3, {list, 1}}), Error::kNoSuchSrq));
  EXPECT_TRUE(refused(endpoint_->create_srq(pd_, 0, 1), Error::kInvalid));
}

TEST_F(Srq, ItLivesAsLongAsItsUsers) {
  connect_two();
  EXPECT_TRUE(refused(endpoint_->destroy_srq(srq_->id), Error::kBusy));
  ASSERT_TRUE(accepted(endpoint_->destroy_qp(kQpn)));
  ASSERT_TRUE(accepted(endpoint_->destroy_qp(kOther)));
  const SrqId id = srq_->id;
  const auto destroyed = endpoint_->destroy_srq(id);
  ASSERT_TRUE(accepted(destroyed));
  EXPECT_TRUE(refused(endpoint_->destroy_srq(id), Error::kNoSuchSrq));
  // Another thread may be about to use it.
  EXPECT_TRUE(refused(posting::append(**destroyed, {1, {}}), Error::kInvalid));
  QpInit late = init();
  late.srq = destroyed->get();
  EXPECT_TRUE(refused(endpoint_->create_qp(late, kQpn), Error::kInvalid));
  EXPECT_TRUE(refused(endpoint_->arm_srq_limit(id, 1), Error::kNoSuchSrq));
}

// Its lists are of its own domain; the queue pair's domain is for the rest.
TEST_F(Srq, OfAnotherProtectionDomain) {
  const PdId other = domain_.allocate_pd().value();
  Bytes extra(64);
  const auto theirs = domain_
                          .register_region(other, {.base = extra.data(),
                                                   .length = extra.size(),
                                                   .iova = 0,
                                                   .access = memory::kLocalWrite})
                          .value();
  srq_ = endpoint_->create_srq(other, 4, 1).value();
  QpInit with_srq = init();
  with_srq.srq = srq_;
  create(with_srq);
  bring_up(defaults());
  const memory::Sge sge{0, 64, theirs.lkey};
  ASSERT_TRUE(accepted(endpoint_->post_srq_recv(srq_->id, {1, {&sge, 1}})));
  receive(request(Op::kSendOnly, 0, true), pattern(40));
  EXPECT_EQ(recvs(), "1 success 40");
  EXPECT_TRUE(std::ranges::equal(std::span(extra).first(40), pattern(40)));
  // A key of the queue pair's domain is none there.
  post_shared(2);
  receive(request(Op::kSendOnly, 1, true), pattern(4));
  EXPECT_EQ(recvs(), "2 local protection error");
}

TEST_F(Srq, DatagramsUseItToo) {
  srq_ = endpoint_->create_srq(pd_, 4, 1).value();
  QpInit with_srq = init(QpType::kUd);
  with_srq.srq = srq_;
  create(with_srq);
  bring_up(defaults(), QpType::kUd);
  post_shared(1);
  auto headers = headers_of(wire::Service::kUd, Op::kSendOnly, kQpn, Psn(0));
  headers.deth = {0x1234, 0, Qpn(0x99)};
  receive(headers, pattern(5));
  EXPECT_EQ(recvs(), "1 success 45");
}

}  // namespace
}  // namespace verbena::transport::testing
