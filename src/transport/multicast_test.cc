// SPDX-License-Identifier: Apache-2.0
// Multicast: what is sent to a group reaches each queue pair that is attached to it, once.
#include <gmock/gmock.h>

#include "transport/endpoint_test_fixture.h"

namespace verbena::transport::testing {
namespace {

class Multicast : public EndpointTest {
 protected:
  static constexpr wire::Gid kGroup = wire::Gid::from_ipv4(239, 1, 2, 3);
  static constexpr wire::Gid kOtherGroup = wire::Gid::from_ipv4(239, 1, 2, 4);
  static constexpr Qpn kSecondQpn{0x12};
  static constexpr uint32_t kQkey = 0x1234;

  void make_two() {
    connect(defaults(), QpType::kUd);
    connect(defaults(), QpType::kUd, kSecondQpn);
    recv(1, 100, 0, kQpn);
    recv(2, 100, 100, kSecondQpn);
  }
  void arrive(const wire::Gid& to, Qpn qpn = kMulticastQpn,
              wire::Service service = wire::Service::kUd, Qpn from_qpn = Qpn(0x99),
              const wire::Gid& from = kThere) {
    auto headers = headers_of(service, Op::kSendOnly, qpn, Psn(7));
    headers.deth = {kQkey, 0, from_qpn};
    const Packet packet(headers, pattern(5));
    InPacket in = arriving(packet, from);
    in.destination = to;
    endpoint_->receive(in, now_);
    endpoint_->finish_batch(now_);
  }
};

TEST_F(Multicast, EveryMemberHasACopyWithTheGroupInItsRoutingHeader) {
  make_two();
  ASSERT_TRUE(accepted(endpoint_->attach(kQpn, kGroup)));
  ASSERT_TRUE(accepted(endpoint_->attach(kSecondQpn, kGroup)));
  arrive(kGroup);
  EXPECT_EQ(recvs(), "1 success 45, 2 success 45");
  const Bytes to = bytes_at(24, 16);
  EXPECT_TRUE(std::ranges::equal(to, kGroup.bytes));
  EXPECT_EQ(bytes_at(40, 5), pattern(5));
  EXPECT_EQ(bytes_at(140, 5), pattern(5));
}

TEST_F(Multicast, OnlyMembersOfThatGroupHearIt) {
  make_two();
  ASSERT_TRUE(accepted(endpoint_->attach(kQpn, kGroup)));
  ASSERT_TRUE(accepted(endpoint_->attach(kSecondQpn, kOtherGroup)));
  arrive(kOtherGroup);
  EXPECT_EQ(recvs(), "2 success 45");
  arrive(wire::Gid::from_ipv4(239, 9, 9, 9));
  EXPECT_EQ(count(Counter::kDropNoQp), 1u);
}

TEST_F(Multicast, AttachedTwiceIsOnceAndDetachedIsGone) {
  make_two();
  ASSERT_TRUE(accepted(endpoint_->attach(kQpn, kGroup)));
  ASSERT_TRUE(accepted(endpoint_->attach(kQpn, kGroup)));
  arrive(kGroup);
  EXPECT_EQ(recvs(), "1 success 45");
  ASSERT_TRUE(accepted(endpoint_->detach(kQpn, kGroup)));
  EXPECT_TRUE(refused(endpoint_->detach(kQpn, kGroup), Error::kInvalid));
  EXPECT_TRUE(refused(endpoint_->detach(kSecondQpn, kGroup), Error::kInvalid));
  arrive(kGroup);
  EXPECT_EQ(count(Counter::kDropNoQp), 1u);
}

TEST_F(Multicast, TheAddressAndTheNumberMustBothBeAGroups) {
  make_two();
  ASSERT_TRUE(accepted(endpoint_->attach(kQpn, kGroup)));
  arrive(kGroup, kQpn);
  arrive(kHere, kMulticastQpn);
  EXPECT_EQ(count(Counter::kDropNoQp), 2u);
  arrive(kGroup, kMulticastQpn, wire::Service::kRc);
  EXPECT_EQ(count(Counter::kDropWrongService), 1u);
  EXPECT_EQ(recvs(), "");
}

TEST_F(Multicast, AMemberThatIsNotReadyDoesNotKeepItFromOthers) {
  make_two();
  ASSERT_TRUE(accepted(endpoint_->attach(kQpn, kGroup)));
  ASSERT_TRUE(accepted(endpoint_->attach(kSecondQpn, kGroup)));
  ASSERT_TRUE(accepted(modify(QpState::kReset)));
  arrive(kGroup);
  EXPECT_EQ(recvs(), "2 success 45");
  EXPECT_EQ(count(Counter::kDropWrongState), 1u);
}

TEST_F(Multicast, WhatOneSentItselfIsNotHeardByWhoDoesNotWantIt) {
  QpInit deaf = init(QpType::kUd);
  deaf.block_own_multicast = true;
  create(deaf, kQpn);
  bring_up(defaults(), QpType::kUd, kQpn);
  connect(defaults(), QpType::kUd, kSecondQpn);
  recv(1, 100, 0, kQpn);
  recv(2, 100, 100, kSecondQpn);
  ASSERT_TRUE(accepted(endpoint_->attach(kQpn, kGroup)));
  ASSERT_TRUE(accepted(endpoint_->attach(kSecondQpn, kGroup)));
  SendRequest request{.wr_id = 1, .remote_qpn = kMulticastQpn};
  request.path = {.source = kHere, .destination = kGroup};
  request.remote_qkey = kQkey;
  ASSERT_TRUE(accepted(post(request)));
  arrive(kGroup, kMulticastQpn, wire::Service::kUd, kQpn, kHere);
  EXPECT_EQ(recvs(), "2 success 45");
  // Another host's queue pair of that number.
  arrive(kGroup, kMulticastQpn, wire::Service::kUd, kQpn, kThere);
  EXPECT_EQ(recvs(), "1 success 45");
}

TEST_F(Multicast, AnAttachedQueuePairIsBusy) {
  make_two();
  ASSERT_TRUE(accepted(endpoint_->attach(kQpn, kGroup)));
  EXPECT_TRUE(refused(endpoint_->destroy_qp(kQpn), Error::kBusy));
  EXPECT_EQ(endpoint_->groups_of(kQpn), std::vector{kGroup});
  ASSERT_TRUE(accepted(endpoint_->detach(kQpn, kGroup)));
  EXPECT_TRUE(accepted(endpoint_->destroy_qp(kQpn)));
}

TEST_F(Multicast, IsForDatagramsAndGroupsAndWithinLimits) {
  make_two();
  connect(defaults(), QpType::kRc, Qpn(0x13));
  EXPECT_TRUE(refused(endpoint_->attach(Qpn(0x13), kGroup), Error::kInvalid));
  EXPECT_TRUE(refused(endpoint_->attach(kQpn, kHere), Error::kInvalid));
  EXPECT_TRUE(refused(endpoint_->attach(Qpn(0x77), kGroup), Error::kNoSuchQp));
  for (size_t i = 0; i < Groups::kMaxGroups; ++i) {
    const wire::Gid group = wire::Gid::from_ipv4(239, 0, 0, static_cast<uint8_t>(i));
    ASSERT_TRUE(accepted(endpoint_->attach(kQpn, group)));
  }
  EXPECT_TRUE(refused(endpoint_->attach(kQpn, kGroup), Error::kTooMany));
}

}  // namespace
}  // namespace verbena::transport::testing
