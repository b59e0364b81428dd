// SPDX-License-Identifier: Apache-2.0
// UD: one packet is one message, with its routing header before it in the receive.
#include <gmock/gmock.h>

#include "transport/endpoint_test_fixture.h"

namespace verbena::transport::testing {
namespace {

class Ud : public EndpointTest {
 protected:
  static constexpr uint32_t kQkey = 0x1234;  // of defaults()

  void connect_ud(QpAttr attr = defaults()) { connect(attr, QpType::kUd); }
  Result<void, Error> post_datagram(uint64_t wr_id, size_t n, uint32_t qkey = kQkey,
                                    SendOp op = SendOp::kSend) {
    SendRequest request{
        .wr_id = wr_id, .op = op, .flags = kSignaled, .imm = 0xcafe, .remote_qpn = kPeerQpn};
    request.path = {.source = kHere, .destination = wire::Gid::from_ipv4(10, 0, 0, 77)};
    request.remote_qkey = qkey;
    const memory::Sge sge = at(0, n);
    return n == 0 ? post(request) : post(request, {sge});
  }
  wire::Headers datagram(Op op = Op::kSendOnly, uint32_t qkey = kQkey) const {
    auto headers = headers_of(wire::Service::kUd, op, kQpn, Psn(77));
    headers.deth = {qkey, 0, Qpn(0x99)};
    headers.imm.value = 0xcafe;
    return headers;
  }
};

TEST_F(Ud, ADatagramGoesWhereItsAddressHandleSays) {
  connect_ud();
  fill(0, pattern(5));
  ASSERT_TRUE(accepted(post_datagram(1, 5)));
  ASSERT_EQ(link_.sent.size(), 1u);
  const Packet& packet = link_.sent[0];
  EXPECT_EQ(packet.path.destination, wire::Gid::from_ipv4(10, 0, 0, 77));
  EXPECT_EQ(packet.info().service, wire::Service::kUd);
  EXPECT_EQ(packet.view().bth.dest_qp, kPeerQpn);
  EXPECT_EQ(packet.view().deth().qkey, kQkey);
  EXPECT_EQ(packet.view().deth().source_qp, kQpn);
  EXPECT_EQ(packet.payload(), pattern(5));
  EXPECT_EQ(sends(), "1 success");
}

TEST_F(Ud, EachDatagramIsOnePacketAndOnePsnWhateverItsLength) {
  connect_ud();
  for (const size_t n : {0u, 1u, 1024u, 1025u, 4095u, 4096u})
    ASSERT_TRUE(accepted(post_datagram(n, n)));
  EXPECT_EQ(said(),
            "SEND_ONLY 0 (0), SEND_ONLY 1 (1), SEND_ONLY 2 (1024), SEND_ONLY 3 (1025), "
            "SEND_ONLY 4 (4095), SEND_ONLY 5 (4096)");
  EXPECT_TRUE(refused(post_datagram(1, 4097), Error::kInvalid));
}

TEST_F(Ud, APrivilegedQkeyIsReplacedByTheQueuePairsOwn) {
  connect_ud();
  ASSERT_TRUE(accepted(post_datagram(1, 5, 0x80000001)));
  EXPECT_EQ(link_.sent[0].view().deth().qkey, kQkey);
}

TEST_F(Ud, ImmediateAndOperationsThatAreNotOffered) {
  connect_ud();
  ASSERT_TRUE(accepted(post_datagram(1, 5, kQkey, SendOp::kSendImm)));
  EXPECT_EQ(link_.sent[0].view().imm().value, 0xcafeu);
  for (const SendOp op : {SendOp::kWrite, SendOp::kWriteImm, SendOp::kRead, SendOp::kFetchAdd,
                          SendOp::kSendInvalidate, SendOp::kBindWindow, SendOp::kLocalInvalidate}) {
    EXPECT_TRUE(refused(post_datagram(1, 8, kQkey, op), Error::kInvalid));
  }
}

TEST_F(Ud, InlineDatagrams) {
  connect_ud();
  const Bytes mine = pattern(16);
  const memory::Sge sge{reinterpret_cast<uint64_t>(mine.data()), 16, LKey(0)};
  ASSERT_TRUE(accepted(
      post({.wr_id = 1, .flags = kSignaled | kInline, .path = kPathThere, .remote_qpn = kPeerQpn},
           {sge})));
  EXPECT_EQ(link_.sent[0].payload(), mine);
}

TEST_F(Ud, TheReceiveBeginsWithTheRoutingHeader) {
  connect_ud();
  recv(1, 100);
  receive(datagram(Op::kSendOnlyImm), pattern(5));
  ASSERT_EQ(recv_cq_.all.size(), 1u);
  const Completion completion = recv_cq_.all[0];
  EXPECT_EQ(completion.flags, uint32_t{kWcGrh} | kWcWithImm);
  EXPECT_EQ(completion.imm_or_rkey, 0xcafeu);
  EXPECT_EQ(completion.source_qpn, Qpn(0x99));
  EXPECT_EQ(recvs(), "1 success 45");
  const Bytes grh = bytes_at(0, 40);
  EXPECT_EQ(Bytes(grh.begin(), grh.begin() + 4),
            (Bytes{0x62, 0, 0, 0}));  // version 6, traffic class 0x20
  EXPECT_EQ(load_be16(grh.data() + 4),
            12 + 8 + 4 + 5 + 3 + 4);  // BTH, DETH, ImmDt, payload, pad, ICRC
  EXPECT_EQ(grh[6], 0x1b);
  EXPECT_EQ(grh[7], 63);  // as it arrived
  EXPECT_TRUE(std::equal(grh.begin() + 8, grh.begin() + 24, kThere.bytes.begin()));
  EXPECT_TRUE(std::equal(grh.begin() + 24, grh.end(), kHere.bytes.begin()));
  EXPECT_EQ(bytes_at(40, 5), pattern(5));
  EXPECT_EQ(said(), "");
}

TEST_F(Ud, AnyoneMaySend) {
  connect_ud();
  recv(1, 100);
  const Packet packet(datagram(), pattern(5));
  endpoint_->receive(arriving(packet, wire::Gid::from_ipv4(192, 168, 1, 1)), now_);
  EXPECT_EQ(recvs(), "1 success 45");
}

TEST_F(Ud, AWrongQkeyIsDropped) {
  connect_ud();
  recv(1, 100);
  receive(datagram(Op::kSendOnly, 0x4321), pattern(5));
  EXPECT_EQ(count(Counter::kUdBadQkey), 1u);
  EXPECT_EQ(recvs(), "");
}

TEST_F(Ud, WithoutReceiveADatagramIsDropped) {
  connect_ud();
  receive(datagram(), pattern(5));
  EXPECT_EQ(count(Counter::kUdNoReceive), 1u);
}

TEST_F(Ud, WhatIsLongerThanTheReceiveIsDroppedAndTheReceiveKept) {
  connect_ud();
  recv(1, 44);
  receive(datagram(), pattern(5));
  EXPECT_EQ(count(Counter::kUdTooLong), 1u);
  EXPECT_EQ(recvs(), "");
  receive(datagram(), pattern(4));
  EXPECT_EQ(recvs(), "1 success 44");
}

TEST_F(Ud, AnUnusableReceiveIsReported) {
  connect_ud();
  const memory::Sge bad{kIova, 100, LKey(0xdead)};
  ASSERT_TRUE(accepted(endpoint_->post_recv(kQpn, {1, {&bad, 1}})));
  recv(2, 100);
  receive(datagram(), pattern(5));
  EXPECT_EQ(count(Counter::kUdReceiveFault), 1u);
  EXPECT_EQ(recvs(), "1 local protection error");
  receive(datagram(), pattern(5));
  EXPECT_EQ(recvs(), "2 success 45");
}

TEST_F(Ud, AnEmptyDatagramIsItsHeader) {
  connect_ud();
  recv(1, 40);
  receive(datagram());
  EXPECT_EQ(recvs(), "1 success 40");
}

TEST_F(Ud, ABadKeyBringsSqe) {
  connect_ud();
  const memory::Sge bad{kIova, 10, LKey(0xdead)};
  ASSERT_TRUE(accepted(post({.wr_id = 1, .path = kPathThere, .remote_qpn = kPeerQpn}, {bad})));
  EXPECT_EQ(sends(), "1 local protection error");
  EXPECT_EQ(state(), QpState::kSqe);
  recv(2, 100);
  receive(datagram(), pattern(5));
  EXPECT_EQ(recvs(), "2 success 45");
  ASSERT_TRUE(accepted(modify(QpState::kRts)));
  ASSERT_TRUE(accepted(post_datagram(3, 5)));
  EXPECT_EQ(sends(), "3 success");
}

}  // namespace
}  // namespace verbena::transport::testing
