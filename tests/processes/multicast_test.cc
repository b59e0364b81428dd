// SPDX-License-Identifier: Apache-2.0
// Multicast among processes: each that has attached a queue pair to a group hears what anyone sends
// to it, on this host and on another, over IPv4 and IPv6; who has not, or has left, does not.
#include <cstring>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>

#include "processes/actor.h"
#include "processes/crowd.h"

namespace verbena::processes {
namespace {

constexpr uint32_t kBytes = 200;
constexpr uint32_t kGrh = 40;
constexpr uint32_t kCount = 20;

[[nodiscard]] Card group_card() {
  Card card;
  card.qpns[0] = kMulticastQpn.value;
  return card;
}

[[nodiscard]] wire::Gid fd77(uint8_t last) {
  wire::Gid gid{{0xfd, 0x77}};
  gid.bytes[15] = last;
  return gid;
}

class Multicast : public ::testing::Test {
 protected:
  Multicast() : stage_(make_stage()) {
    options_.engine = own_engine_options();
    options_.type = transport::QpType::kUd;
  }
  ~Multicast() override { drop_stage(stage_); }

  // steps[0]: listeners ready; steps[1]: listeners done; steps[2]: the sender's.
  void listen(Stage& stage, Party& party, const wire::Gid& group) {
    party.attach(group);
    for (uint32_t i = 0; i < kCount; ++i) party.post_recv(0, i * 1024, kGrh + kBytes);
    ++stage.steps[0];
    for (uint32_t i = 0; i < kCount; ++i) {
      const auto completion = party.next();
      need(completion.has_value(), "datagram " + std::to_string(i) + " did not come");
      need(completion->status == transport::WcStatus::kSuccess &&
               completion->byte_len == kGrh + kBytes,
           "a bad completion");
      need(party.memory()[i * 1024 + kGrh] == static_cast<uint8_t>(i + 1), "wrong data");
      need(std::memcmp(party.memory() + i * 1024 + 24, group.bytes.data(), 16) == 0,
           "the group is not in the routing header");
    }
    ++stage.steps[1];
  }
  void send(Party& party, const wire::Gid& group) {
    for (uint32_t i = 0; i < kCount; ++i) {
      std::memset(party.memory(), static_cast<int>(i + 1), kBytes);
      party.post_datagram(group_card(), group, kBytes);
      const auto completion = party.next();
      need(completion && completion->status == transport::WcStatus::kSuccess, "not sent");
    }
  }
  // One sender in `there` (or here), two listeners and one that has not joined in `here`.
  void run(const Namespace* here, const Namespace* there, const wire::Gid& at_here,
           const wire::Gid& at_there, const wire::Gid& group) {
    const auto listener = [&](Stage& stage) {
      if (here != nullptr) need(here->enter(), "setns");
      options_.address = at_here;
      Party party(options_);
      listen(stage, party, group);
      party.detach(group);
      // Nothing more comes.
      party.post_recv(0, 0, kGrh + kBytes);
      ++stage.steps[0];
      need(wait_until([&] { return stage.steps[2] >= 2; }), "no second round");
      need(!party.next(50 * kMillisecond), "heard after it had left");
      ++stage.steps[1];
    };
    const auto stranger = [&](Stage& stage, bool in_other_group) {
      if (here != nullptr) need(here->enter(), "setns");
      options_.address = at_here;
      Party party(options_);
      const wire::Gid other_group = group.is_ipv4() ? wire::Gid::from_ipv4(239, 77, 77, 77)
                                                    : wire::Gid{{0xff, 0x0e, 7, 7, 7}};
      if (in_other_group) party.attach(other_group);
      party.post_recv(0, 0, kGrh + kBytes);
      ++stage.steps[0];
      need(wait_until([&] { return stage.steps[2] >= 2; }), "no second round");
      need(!party.next(50 * kMillisecond), "heard what was for others");
      if (in_other_group) party.detach(other_group);
    };
    Actor first(*stage_, listener);
    Actor second(*stage_, listener);
    Actor third(*stage_, [&](Stage& stage) { stranger(stage, true); });
    Actor fourth(*stage_, [&](Stage& stage) { stranger(stage, false); });
    Actor sender(*stage_, [&](Stage& stage) {
      if (there != nullptr) need(there->enter(), "setns");
      options_.address = at_there;
      Party party(options_);
      need(wait_until([&] { return stage.steps[0] >= 4; }), "nobody listens");
      send(party, group);
      stage.steps[2] = 1;
      need(wait_until([&] { return stage.steps[0] >= 6; }), "the listeners did not hear all");
      send(party, group);
      stage.steps[2] = 2;
    });
    EXPECT_EQ(first.join(), 0) << stage_->words.data();
    EXPECT_EQ(second.join(), 0) << stage_->words.data();
    EXPECT_EQ(third.join(), 0) << stage_->words.data();
    EXPECT_EQ(fourth.join(), 0) << stage_->words.data();
    EXPECT_EQ(sender.join(), 0) << stage_->words.data();
    EXPECT_EQ(leftovers(options_.engine.host), "");
  }

  PartyOptions options_;
  Stage* stage_;
};

TEST_F(Multicast, ReachesEveryProcessOfTheHostThatHasJoined) {
  const wire::Gid loopback = wire::Gid::from_ipv4(127, 0, 0, 1);
  run(nullptr, nullptr, loopback, loopback, wire::Gid::from_ipv4(239, 1, 2, 3));
}

class MulticastBetweenHosts : public Multicast {
 protected:
  MulticastBetweenHosts() : here_(Namespace::Kind::kNetwork), there_(Namespace::Kind::kNetwork) {}
  void SetUp() override {
    if (!is_root()) GTEST_SKIP() << "two hosts (network namespaces) take root";
    if (!here_.valid() || !there_.valid() || !join_hosts(here_, there_)) {
      GTEST_SKIP() << "network namespaces are not to be had here";
    }
  }
  Namespace here_;
  Namespace there_;
};

TEST_F(MulticastBetweenHosts, Ipv4) {
  run(&here_, &there_, wire::Gid::from_ipv4(10, 77, 0, 1), wire::Gid::from_ipv4(10, 77, 0, 2),
      wire::Gid::from_ipv4(239, 1, 2, 3));
}

TEST_F(MulticastBetweenHosts, Ipv6) {
  run(&here_, &there_, fd77(1), fd77(2), wire::Gid{{0xff, 0x0e, 0, 0, 0, 0, 1, 2, 3}});
}

// The kernel gives those at home a copy of what leaves.
TEST_F(MulticastBetweenHosts, Ipv6AtHome) {
  run(&here_, &here_, fd77(1), fd77(1), wire::Gid{{0xff, 0x0e, 0, 0, 0, 0, 1, 2, 3}});
}

}  // namespace
}  // namespace verbena::processes
