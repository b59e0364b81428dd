// SPDX-License-Identifier: Apache-2.0
// XRC: a sender that names the shared receive queue, and a target that serves whichever is named.
#include "transport/endpoint_test_fixture.h"

namespace verbena::transport::testing {
namespace {

class Xrc : public EndpointTest {
 protected:
  static constexpr XrcdId kDomain{7};
  static constexpr XrcdId kOtherDomain{8};

  void make_sender() {
    QpInit made = init(QpType::kXrcSend);
    made.recv_cq = nullptr;
    made.max_recv_entries = 0;
    create(made);
    const QpAttr attr = defaults();
    sq_psn_ = attr.sq_psn;
    rq_psn_ = attr.rq_psn;
    constexpr uint32_t kRtr = kAttrState | kAttrPath | kAttrMtu | kAttrDestQpn | kAttrRqPsn;
    step(attr, QpState::kInit, init_mask(QpType::kRc));
    step(attr, QpState::kRtr, kRtr);
    step(attr, QpState::kRts, rts_mask(QpType::kRc));
  }
  void make_target() {
    create({.type = QpType::kXrcRecv, .xrcd = kDomain});
    const QpAttr attr = defaults();
    sq_psn_ = attr.sq_psn;
    rq_psn_ = attr.rq_psn;
    step(attr, QpState::kInit, init_mask(QpType::kRc));
    step(attr, QpState::kRtr, rtr_mask(QpType::kRc));
    step(attr, QpState::kRts, kAttrState | kAttrSqPsn | kAttrTimeout);
  }
  [[nodiscard]] SrqId make_srq(PdId pd, RecordingQueue& cq, XrcdId domain = kDomain) {
    return endpoint_->create_srq(pd, 8, 2, domain, &cq).value()->id;
  }
  void post_recv(SrqId srq, uint64_t wr_id, size_t offset, size_t n) {
    const memory::Sge sge = at(offset, n);
    ASSERT_TRUE(accepted(endpoint_->post_srq_recv(srq, {wr_id, {&sge, 1}})));
  }
  [[nodiscard]] wire::Headers to_srq(wire::Headers headers, Op op, SrqId srq) const {
    headers.bth.opcode = wire::opcode_byte(wire::Service::kXrc, op);
    headers.xrceth.srq = srq;
    return headers;
  }
  [[nodiscard]] wire::Headers send_to(SrqId srq, Op op, uint32_t psn) const {
    return to_srq(request(op, psn, true), op, srq);
  }

  RecordingQueue first_cq_;
  RecordingQueue second_cq_;
};

TEST_F(Xrc, EveryRequestNamesTheSharedQueue) {
  make_sender();
  for (const SendOp op : {SendOp::kSend, SendOp::kWriteImm, SendOp::kRead}) {
    const SendRequest wanted{.op = op,
                             .flags = kSignaled,
                             .remote_addr = RemoteAddr(0x9000),
                             .rkey = RKey(0x5555),
                             .remote_srq = SrqId(0x123456)};
    ASSERT_TRUE(accepted(post(wanted, {at(0, 3000)})));
  }
  const SendRequest add{.op = SendOp::kFetchAdd,
                        .flags = kSignaled,
                        .remote_addr = RemoteAddr(0x9000),
                        .rkey = RKey(0x5555),
                        .remote_srq = SrqId(0x123456)};
  ASSERT_TRUE(accepted(post(add, {at(0, 8)})));
  const auto packets = sent();
  ASSERT_EQ(packets.size(), 3u + 3 + 1 + 1);
  for (const Packet& packet : packets) {
    EXPECT_EQ(packet.view().info->service, wire::Service::kXrc);
    EXPECT_EQ(packet.view().xrceth().srq, SrqId(0x123456));
  }
  auto acknowledged = response(Op::kAcknowledge, 5);
  acknowledged.bth.opcode = wire::opcode_byte(wire::Service::kXrc, Op::kAcknowledge);
  receive(acknowledged);
  EXPECT_EQ(sends(), "0 success, 0 success");
}

TEST_F(Xrc, TheNamedQueueServesTheMessage) {
  make_target();
  const SrqId first = make_srq(pd_, first_cq_);
  const SrqId second = make_srq(pd_, second_cq_);
  post_recv(first, 1, 0, 2048);
  post_recv(second, 2, 4096, 64);
  const Bytes bytes = pattern(1024 + 100, 3);
  take(send_to(first, Op::kSendFirst, 0), Bytes(bytes.begin(), bytes.begin() + 1024));
  take(send_to(first, Op::kSendLast, 1), Bytes(bytes.begin() + 1024, bytes.end()));
  receive(send_to(second, Op::kSendOnly, 2), pattern(20, 4));
  EXPECT_EQ(bytes_at(0, bytes.size()), bytes);
  EXPECT_EQ(bytes_at(4096, 20), pattern(20, 4));
  ASSERT_EQ(first_cq_.all.size(), 1u);
  ASSERT_EQ(second_cq_.all.size(), 1u);
  EXPECT_EQ(first_cq_.all[0].wr_id, 1u);
  EXPECT_EQ(second_cq_.all[0].wr_id, 2u);
  const auto answers = sent();
  ASSERT_EQ(answers.size(), 1u);
  EXPECT_EQ(answers[0].view().info->service, wire::Service::kXrc);
}

TEST_F(Xrc, AQueueWithoutReceivesIsNotReady) {
  make_target();
  const SrqId srq = make_srq(pd_, first_cq_);
  receive(send_to(srq, Op::kSendOnly, 0), pattern(20));
  EXPECT_EQ(said(), "RNR 12 0 msn 0");
  post_recv(srq, 1, 0, 64);
  receive(send_to(srq, Op::kSendOnly, 0), pattern(20));
  EXPECT_EQ(first_cq_.all.size(), 1u);
}

TEST_F(Xrc, MemoryIsThatOfTheQueuesDomain) {
  make_target();
  const PdId stranger = domain_.allocate_pd().value();
  const SrqId good = make_srq(pd_, first_cq_);
  const SrqId bad = make_srq(stranger, second_cq_);
  receive(to_srq(write(Op::kWriteOnly, 0, 0, 10, true), Op::kWriteOnly, good), pattern(10, 5));
  EXPECT_EQ(bytes_at(0, 10), pattern(10, 5));
  receive(to_srq(write(Op::kWriteOnly, 1, 100, 10, true), Op::kWriteOnly, bad), pattern(10, 6));
  EXPECT_EQ(said(), "ACK 0 msn 1, NAK access 1 msn 1");
  EXPECT_EQ(state(), QpState::kErr);
}

TEST_F(Xrc, AReadIsAnsweredFromTheDomainItWasAskedIn) {
  make_target();
  const PdId stranger = domain_.allocate_pd().value();
  const SrqId good = make_srq(pd_, first_cq_);
  const SrqId bad = make_srq(stranger, second_cq_);
  post_recv(bad, 1, 0, 64);
  link_.room = 0;
  take(to_srq(read(0, 0, 100), Op::kReadRequest, good));
  take(send_to(bad, Op::kSendOnly, 1), {});
  link_.room = RecordingLink::kUnlimited;
  endpoint_->finish_batch(now_);
  const auto answers = sent();
  ASSERT_GE(answers.size(), 1u);
  EXPECT_EQ(answers[0].op(), Op::kReadResponseOnly);
}

TEST_F(Xrc, AQueueOfAnotherDomainOrKindOrNoneIsInvalid) {
  const SrqId strange = make_srq(pd_, first_cq_, kOtherDomain);
  const SrqId plain = endpoint_->create_srq(pd_, 8, 2).value()->id;
  for (const SrqId srq : {strange, plain, SrqId(0x777777)}) {
    make_target();
    receive(send_to(srq, Op::kSendOnly, 0), pattern(20));
    EXPECT_EQ(said(), "NAK invalid 0 msn 0");
    ASSERT_TRUE(accepted(endpoint_->destroy_qp(kQpn)));
  }
}

TEST_F(Xrc, AnotherQueueWithinAMessageIsInvalid) {
  make_target();
  const SrqId first = make_srq(pd_, first_cq_);
  const SrqId second = make_srq(pd_, second_cq_);
  post_recv(first, 1, 0, 4096);
  take(send_to(first, Op::kSendFirst, 0), pattern(1024));
  receive(send_to(second, Op::kSendLast, 1), pattern(100));
  EXPECT_EQ(said(), "NAK invalid 1 msn 0");
  ASSERT_EQ(first_cq_.all.size(), 1u);
  EXPECT_EQ(first_cq_.all[0].status, WcStatus::kFlushed);
}

TEST_F(Xrc, TheQueueMayGoInTheMiddleOfAMessage) {
  make_target();
  const SrqId srq = make_srq(pd_, first_cq_);
  post_recv(srq, 1, 0, 4096);
  take(send_to(srq, Op::kSendFirst, 0), pattern(1024));
  ASSERT_TRUE(accepted(endpoint_->destroy_srq(srq)));
  receive(send_to(srq, Op::kSendLast, 1), pattern(100));
  EXPECT_EQ(said(), "NAK invalid 1 msn 0");
  EXPECT_EQ(state(), QpState::kErr);
  EXPECT_EQ(first_cq_.all.size(), 0u);
}

TEST_F(Xrc, EachHalfTakesItsOwnPacketsAlone) {
  make_target();
  auto headers = response(Op::kAcknowledge, 0);
  headers.bth.opcode = wire::opcode_byte(wire::Service::kXrc, Op::kAcknowledge);
  receive(headers);
  EXPECT_EQ(count(Counter::kDropWrongService), 1u);
  EXPECT_TRUE(refused(post({}, {at(0, 10)}), Error::kInvalid));
  ASSERT_TRUE(accepted(endpoint_->destroy_qp(kQpn)));
  make_sender();
  receive(send_to(SrqId(1), Op::kSendOnly, 0), pattern(20));
  EXPECT_EQ(count(Counter::kDropWrongService), 2u);
  EXPECT_TRUE(refused(endpoint_->post_recv(kQpn, {}), Error::kInvalid));
}

TEST_F(Xrc, QueuesAreThoseOfItsHalf) {
  QpInit both = init(QpType::kXrcSend);
  EXPECT_TRUE(refused(endpoint_->create_qp(both), Error::kInvalid));
  EXPECT_TRUE(refused(endpoint_->create_qp({.type = QpType::kXrcRecv}), Error::kInvalid));
  QpInit plain = init(QpType::kRc);
  plain.xrcd = kDomain;
  EXPECT_TRUE(refused(endpoint_->create_qp(plain), Error::kInvalid));
  QpInit with_srq = init(QpType::kRc);
  with_srq.srq = endpoint_->create_srq(pd_, 8, 2, kDomain, &first_cq_).value();
  EXPECT_TRUE(refused(endpoint_->create_qp(with_srq), Error::kInvalid));
  EXPECT_TRUE(refused(endpoint_->create_srq(pd_, 8, 2, kDomain), Error::kInvalid));
}

TEST_F(Xrc, ASmallPacketBesideALargeOneThatIsLostReachesTheTarget) {
  make_sender();
  const SendRequest wanted{.op = SendOp::kWrite,
                           .flags = kSignaled,
                           .remote_addr = RemoteAddr(0x9000),
                           .rkey = RKey(0x5555),
                           .remote_srq = SrqId(0x123456)};
  ASSERT_TRUE(accepted(post(wanted, {at(0, 3000)})));
  run_until(now_ + 2 * kTimeout);
  size_t small = 0;
  for (const Packet& packet : sent()) {
    EXPECT_EQ(packet.view().info->service, wire::Service::kXrc);
    if (!packet.view().payload.empty()) continue;
    EXPECT_EQ(packet.view().xrceth().srq, SrqId(0x123456));
    ++small;
  }
  EXPECT_GE(small, 1u);
}

}  // namespace
}  // namespace verbena::transport::testing
