// SPDX-License-Identifier: Apache-2.0
// The GID table follows the host: addresses that come and go are seen without asking, with an event
// on every context; an address keeps its index, and has it again when it comes back; one that
// appeared after the start serves connections.
#include <functional>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>
#include <poll.h>

#include "processes/actor.h"
#include "processes/crowd.h"

namespace verbena::processes {
namespace {

// Whether a GID_CHANGE comes in time, and the change with it. Others may come before: a kernel
// gives interfaces addresses of their own.
[[nodiscard]] bool told(device::Context& context, const std::function<bool()>& changed) {
  for (;;) {
    pollfd waiting{context.events().fd(), POLLIN, 0};
    if (::poll(&waiting, 1, static_cast<int>(kPatience / kMillisecond)) != 1) return false;
    device::AsyncEvent event;
    if (context.events().wait(event) != 0 || event.element != nullptr ||
        event.type != device::EventType::kGidChange) {
      return false;
    }
    if (changed()) return true;
  }
}

class Addresses : public ::testing::Test {
 protected:
  Addresses() : stage_(make_stage()) {}
  ~Addresses() override { drop_stage(stage_); }
  Stage* stage_;
};

TEST_F(Addresses, AreFollowedAndServed) {
  if (!is_root()) GTEST_SKIP() << "two hosts (network namespaces) take root";
  const Namespace first(Namespace::Kind::kNetwork);
  const Namespace second(Namespace::Kind::kNetwork);
  if (!first.valid() || !second.valid() || !join_hosts(first, second)) {
    GTEST_SKIP() << "network namespaces are not to be had here";
  }
  const wire::Gid late = wire::Gid::from_ipv4(10, 77, 0, 11);
  const wire::Gid between = wire::Gid::from_ipv4(10, 77, 0, 12);
  const wire::Gid other = wire::Gid::from_ipv4(10, 77, 0, 2);
  PartyOptions options;
  options.engine = own_engine_options();

  Actor watcher(*stage_, [&](Stage& stage) {
    need(first.enter(), "setns");
    options.address = late;
    Party party(options);
    device::Context second_context(device::Device::acquire(options.engine).value());
    device::GidTable& gids = party.context().device().gids();
    const auto known = gids.entries();
    need(!gids.find(late), "the address is there too early");
    stage.cards[0] = party.card();
    stage.steps[0] = 1;

    const auto is_there = [&] { return gids.find(late).has_value(); };
    need(told(party.context(), is_there), "no event for a new address");
    need(told(second_context, is_there), "no event for a new address on another context");
    const auto index = gids.find(late);
    for (uint32_t i = 0; i < known.size(); ++i) {
      need(gids.at(i)->gid == known[i].gid, "an index moved");
    }
    need(wait_until([&] { return stage.steps[1] >= 1; }), "the other is not there");
    party.connect(stage.cards[1], other);
    stage.steps[0] = 2;
    need(wait_until([&] { return stage.steps[1] >= 2; }), "the other is not connected");
    need(party.echo(0, 9000, 4), "the new address does not serve");

    stage.steps[0] = 3;  // the address goes; another comes; it comes back
    need(told(party.context(), [&] { return !gids.find(late); }), "no event when it went");
    need(!gids.at(*index), "its place is not empty");
    stage.steps[0] = 4;
    need(told(party.context(), [&] { return gids.find(between).has_value(); }),
         "no event for another address");
    stage.steps[0] = 5;
    need(told(party.context(), is_there), "no event for an address that came back");
    need(gids.find(late) == index, "an address that came back has another index");
    stage.steps[0] = 6;  // the interface goes down
    need(wait_until([&] { return !gids.find(late); }), "an interface that is down is shown");
  });
  Actor peer(*stage_, [&](Stage& stage) {
    need(second.enter(), "setns");
    options.address = other;
    Party party(options);
    stage.cards[1] = party.card();
    stage.steps[1] = 1;
    need(wait_until([&] { return stage.steps[0] >= 2; }), "the other is not connected");
    party.connect(stage.cards[0], late);
    stage.steps[1] = 2;
    (void)wait_until([&] { return stage.steps[0] >= 3; });
  });
  const auto step = [&](uint32_t number) {
    return wait_until([&] { return stage_->steps[0] >= number; });
  };
  ASSERT_TRUE(step(1)) << stage_->words.data();
  ASSERT_EQ(first.run("ip addr add 10.77.0.11/24 dev verb0"), 0);
  ASSERT_TRUE(step(3)) << stage_->words.data();
  ASSERT_EQ(first.run("ip addr del 10.77.0.11/24 dev verb0"), 0);
  ASSERT_TRUE(step(4)) << stage_->words.data();
  ASSERT_EQ(first.run("ip addr add 10.77.0.12/24 dev verb0"), 0);
  ASSERT_TRUE(step(5)) << stage_->words.data();
  ASSERT_EQ(first.run("ip addr add 10.77.0.11/24 dev verb0"), 0);
  ASSERT_TRUE(step(6)) << stage_->words.data();
  ASSERT_EQ(first.run("ip link set verb0 down"), 0);
  EXPECT_EQ(watcher.join(), 0) << stage_->words.data();
  EXPECT_EQ(peer.join(), 0) << stage_->words.data();
}

// A path MTU that the interface cannot carry is refused; what stays on the host is not held to it.
TEST_F(Addresses, BoundThePathMtu) {
  using transport::Mtu;
  EXPECT_EQ(device::path_mtu_for(576), Mtu::k256);
  EXPECT_EQ(device::path_mtu_for(1500), Mtu::k1024);
  EXPECT_EQ(device::path_mtu_for(2200), Mtu::k2048);
  EXPECT_EQ(device::path_mtu_for(4200), Mtu::k4096);
  if (!is_root()) GTEST_SKIP() << "two hosts (network namespaces) take root";
  const Namespace first(Namespace::Kind::kNetwork);
  const Namespace second(Namespace::Kind::kNetwork);
  if (!first.valid() || !second.valid() || !join_hosts(first, second)) {
    GTEST_SKIP() << "network namespaces are not to be had here";
  }
  Actor actor(*stage_, [&](Stage&) {
    need(first.enter(), "setns");
    PartyOptions options;
    options.engine = own_engine_options();
    options.address = wire::Gid::from_ipv4(10, 77, 0, 1);
    options.mtu = Mtu::k4096;
    Party party(options);
    need(party.context().device().gids().active_mtu() == Mtu::k1024, "active MTU");
    bool refused = false;
    try {
      party.connect(party.card(), wire::Gid::from_ipv4(10, 77, 0, 2));
    } catch (const std::runtime_error&) {
      refused = true;
    }
    need(refused, "4096 bytes through an interface of 1500");
    party.connect(party.card(), options.address);
    need(party.echo(0, 9000, 4), "to itself");
  });
  EXPECT_EQ(actor.join(), 0) << stage_->words.data();
}

// A datagram is one packet: one that the interface cannot carry is refused when it is posted.
TEST_F(Addresses, BoundDatagrams) {
  if (!is_root()) GTEST_SKIP() << "two hosts (network namespaces) take root";
  const Namespace first(Namespace::Kind::kNetwork);
  const Namespace second(Namespace::Kind::kNetwork);
  if (!first.valid() || !second.valid() || !join_hosts(first, second)) {
    GTEST_SKIP() << "network namespaces are not to be had here";
  }
  Actor actor(*stage_, [&](Stage&) {
    need(first.enter(), "setns");
    PartyOptions options;
    options.engine = own_engine_options();
    options.address = wire::Gid::from_ipv4(10, 77, 0, 1);
    options.type = transport::QpType::kUd;
    Party party(options);
    const auto refused = [&](const wire::Gid& to, uint32_t bytes) {
      try {
        party.post_datagram(party.card(), to, bytes);
      } catch (const std::runtime_error&) {
        return true;
      }
      const auto sent = party.next();
      need(sent && sent->status == transport::WcStatus::kSuccess, "a completion");
      return false;
    };
    const wire::Gid other = wire::Gid::from_ipv4(10, 77, 0, 2);
    need(!refused(other, 1024), "1024 bytes through an interface of 1500");
    need(refused(other, 1025), "1025 bytes are more than its path MTU");
    need(refused(other, 4096), "4096 bytes through an interface of 1500");
    need(!refused(options.address, 4096), "4096 bytes to itself");
    need(refused(options.address, 4097), "more than any path MTU");
  });
  EXPECT_EQ(actor.join(), 0) << stage_->words.data();
}

}  // namespace
}  // namespace verbena::processes
