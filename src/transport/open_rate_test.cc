// SPDX-License-Identifier: Apache-2.0
// UC and UD to other hosts: as fast as the link takes it until a congestion notification comes, and
// not faster than reliable queue pairs that go the same way.
#include "transport/open_rate.h"

#include <gtest/gtest.h>

#include "transport/endpoint_test_fixture.h"

namespace verbena::transport::testing {
namespace {

constexpr wire::Gid kOther = wire::Gid::from_ipv4(10, 0, 0, 3);

class Rate : public ::testing::Test {
 protected:
  // Sends so much per millisecond for so long, as far as it may; gives what was sent.
  uint64_t send(uint64_t per_ms, Duration time) {
    uint64_t sent = 0;
    for (const Time end = now_ + time; now_ < end; now_ += kMillisecond) {
      for (uint64_t left = per_ms; left >= kPacket && rate_.allows_at(kThere, now_) <= now_;) {
        rate_.on_sent(kThere, true, kPacket, now_);
        left -= kPacket;
        sent += kPacket;
      }
    }
    return sent;
  }
  static constexpr uint64_t kPacket = 1280;
  OpenRate rate_;
  Time now_ = kSecond;
};

TEST_F(Rate, ThereIsNoneUntilAMarkComes) {
  EXPECT_EQ(send(100 * kPacket, 50 * kMillisecond), 5'000 * kPacket);
  EXPECT_TRUE(rate_.on_mark(kThere, now_));
  EXPECT_EQ(rate_.size(), 1u);
  EXPECT_EQ(rate_.allows_at(kOther, now_), 0);
}

TEST_F(Rate, AHostToWhichNothingWasSentIsNotBelieved) {
  EXPECT_FALSE(rate_.on_mark(kThere, now_));
  (void)send(100 * kPacket, 50 * kMillisecond);
  EXPECT_FALSE(rate_.on_mark(kOther, now_));
  EXPECT_EQ(rate_.size(), 0u);
  EXPECT_TRUE(rate_.on_mark(kThere, now_));
  EXPECT_FALSE(rate_.on_mark(kThere, now_ + 10 * kSecond)) << "nor after a long time";
}

TEST_F(Rate, AMarkHalvesItAndMarksOfOneMomentCountOnce) {
  (void)send(100 * kPacket, 50 * kMillisecond);
  EXPECT_TRUE(rate_.on_mark(kThere, now_));
  EXPECT_TRUE(rate_.on_mark(kThere, now_ + kMillisecond / 2));
  const auto sent = static_cast<double>(send(100 * kPacket, 4 * kMillisecond));
  EXPECT_NEAR(sent / (400 * kPacket), 0.6, 0.11) << "half, and a burst";
}

TEST_F(Rate, NextMarksHalveItAgain) {
  (void)send(100 * kPacket, 50 * kMillisecond);
  for (int i = 0; i < 5; ++i) {
    EXPECT_TRUE(rate_.on_mark(kThere, now_));
    now_ += 2 * kMillisecond;
  }
  const auto sent = static_cast<double>(send(100 * kPacket, 4 * kMillisecond));
  EXPECT_LT(sent / (400 * kPacket), 0.1);
}

TEST_F(Rate, WithoutMarksItComesBackAndIsForgotten) {
  (void)send(100 * kPacket, 50 * kMillisecond);
  EXPECT_TRUE(rate_.on_mark(kThere, now_));
  const auto first = static_cast<double>(send(100 * kPacket, 50 * kMillisecond));
  EXPECT_GT(first / (5'000 * kPacket), 0.8);
  EXPECT_LT(first / (5'000 * kPacket), 1);
  (void)send(100 * kPacket, 200 * kMillisecond);
  EXPECT_EQ(rate_.size(), 0u);
}

TEST_F(Rate, ManyHostsThatMarkAreBounded) {
  for (uint32_t i = 0; i < 2 * OpenRate::kMaxHosts; ++i) {
    const auto to =
        wire::Gid::from_ipv4(10, 1, static_cast<uint8_t>(i >> 8), static_cast<uint8_t>(i));
    rate_.on_sent(to, true, kPacket, now_);
    EXPECT_TRUE(rate_.on_mark(to, now_));
  }
  EXPECT_EQ(rate_.size(), OpenRate::kMaxHosts);
  rate_.on_sent(kThere, true, kPacket, now_ + 2 * kSecond);
  EXPECT_TRUE(rate_.on_mark(kThere, now_ + 2 * kSecond));
  EXPECT_EQ(rate_.size(), 1u) << "those of long ago made room";
}

class OpenFlow : public EndpointTest {
 protected:
  // Of what may not be marked nobody can say that it was.
  static QpAttr with_ect() {
    QpAttr attr = defaults();
    attr.path.traffic_class = 2;
    return attr;
  }
  void mark(const wire::Gid& from = kThere) {
    const Packet notice(headers_of(wire::Service::kCnp, Op::kSendMiddle, kQpn, Psn(0)), Bytes(16));
    endpoint_->receive(arriving(notice, from), now_);
  }
  // All of 32 KiB leave by themselves; so long it took.
  Duration time_of_message() {
    const Time begun = now_;
    send(SendOp::kSend, 1, 32 * 1024);
    while (sends().empty()) {
      EXPECT_NE(endpoint_->next_deadline(), kNever);
      now_ = std::max(now_, endpoint_->next_deadline());
      endpoint_->advance(now_);
    }
    (void)sent();
    return now_ - begun;
  }
};

TEST_F(OpenFlow, WhatMayNotBeMarkedIsNotSlowedDown) {
  connect(defaults(), QpType::kUc);
  EXPECT_EQ(time_of_message(), 0);
  mark();
  EXPECT_EQ(count(Counter::kDropCnp), 1u);
  EXPECT_EQ(time_of_message(), 0);
}

TEST_F(OpenFlow, UcIsSlowedDownByACongestionNotification) {
  connect(with_ect(), QpType::kUc);
  EXPECT_EQ(time_of_message(), 0);
  mark(kOther);
  EXPECT_EQ(count(Counter::kDropCnp), 1u) << "not of its peer";
  mark();
  EXPECT_EQ(count(Counter::kCongestionNotice), 1u);
  EXPECT_GT(time_of_message(), 0);
  now_ += kSecond;
  EXPECT_EQ(time_of_message(), 0);
}

TEST_F(OpenFlow, UdIsSlowedDownTowardsTheHostThatNotified) {
  create(init(QpType::kUd));
  bring_up(defaults(), QpType::kUd);
  // How many of 32 leave at once.
  const auto post_all = [&](const wire::Gid& to) {
    send_cq_.all.clear();
    for (uint64_t i = 0; i < 32; ++i) {
      SendRequest request{.wr_id = i, .op = SendOp::kSend, .flags = kSignaled};
      request.remote_qpn = kPeerQpn;
      request.path = {.source = kHere, .destination = to, .traffic_class = 2};
      EXPECT_TRUE(accepted(post(request, {at(0, 1024)})));
    }
    return send_cq_.all.size();
  };
  EXPECT_EQ(post_all(kThere), 32u);
  mark();
  EXPECT_EQ(post_all(kOther), 32u);
  EXPECT_LT(post_all(kThere), 32u);
  run_until(now_ + kSecond);
  EXPECT_EQ(send_cq_.all.size(), 32u);
}

TEST_F(OpenFlow, AQueuePairThatWaitsCanBeDestroyed) {
  connect(with_ect(), QpType::kUc);
  (void)time_of_message();
  mark();
  send(SendOp::kSend, 1, 128 * 1024);
  EXPECT_NE(endpoint_->next_deadline(), kNever);
  EXPECT_TRUE(sends().empty());
  ASSERT_TRUE(accepted(endpoint_->destroy_qp(kQpn)));
  EXPECT_EQ(endpoint_->next_deadline(), kNever);
}

// The way is paced once a round trip of 10 ms is known.
TEST_F(OpenFlow, WhileAReliableQueuePairSendsThereItsPaceIsShared) {
  connect();
  constexpr Qpn kUcQpn{0x12};
  connect(with_ect(), QpType::kUc, kUcQpn);
  for (uint32_t i = 0; i < 3; ++i) {
    send(SendOp::kSend, 1, 1024);
    now_ += 10 * kMillisecond;
    ack(i);
  }
  (void)sends();
  const auto uc_message = [&] {
    const SendRequest request{.wr_id = 2, .op = SendOp::kSend, .flags = kSignaled};
    EXPECT_TRUE(accepted(post(request, {at(0, 256 * 1024)}, kUcQpn)));
    endpoint_->advance(now_);
    return sends() == "2 success";
  };
  EXPECT_TRUE(uc_message()) << "nothing of the other's is under way";
  send(SendOp::kSend, 3, 1024);
  EXPECT_FALSE(uc_message());
  run_until(now_ + kSecond);
  EXPECT_EQ(sends().find("2 success"), 0u);
}

}  // namespace
}  // namespace verbena::transport::testing
