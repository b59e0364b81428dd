// SPDX-License-Identifier: Apache-2.0
// Who shares a host with whom: containers of one pod (mount namespaces in one network namespace)
// talk; another user never gets our packets and is told why it serves this host only; so is
// everybody where another program, or the kernel's rdma_rxe, has the port.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "link/joining.h"
#include "processes/actor.h"
#include "processes/crowd.h"
#include "support/nobody.h"

namespace verbena::processes {
namespace {

using verbena::testing::become_nobody;

// The port, held by somebody who does not share it: as the kernel's rdma_rxe does.
[[nodiscard]] UniqueFd occupy(uint16_t port) {
  UniqueFd fd(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) {
    fd.reset();
  }
  return fd;
}

class Sharing : public ::testing::Test {
 protected:
  Sharing() : stage_(make_stage()) { options_.engine = own_engine_options(); }
  ~Sharing() override { drop_stage(stage_); }

  // Both ends show their card, connect, and write to each other; each then waits for the other.
  void exchange(Party& party, Stage& stage, uint32_t own, uint32_t other) {
    stage.cards[own] = party.card();
    ++stage.steps[own];
    need(wait_until([&] { return stage.steps[other] >= 1; }), "the other is not there");
    party.connect(stage.cards[other], kLoopback);
    ++stage.steps[own];
    need(wait_until([&] { return stage.steps[other] >= 2; }), "the other is not connected");
    need(party.echo(0, 9000, static_cast<uint8_t>(own + 1)), "the other is not reached");
    ++stage.steps[own];
    need(wait_until([&] { return stage.steps[other] >= 3; }), "the other was not served");
  }
  void tell(const std::string& words) {
    std::strncpy(stage_->words.data(), words.c_str(), stage_->words.size() - 1);
  }

  PartyOptions options_;
  Stage* stage_;
};

TEST_F(Sharing, TwoMountNamespacesOfOneNetworkNamespaceTalk) {
  if (!is_root()) GTEST_SKIP() << "mount namespaces take root";
  const Namespace here(Namespace::Kind::kMount);
  const Namespace there(Namespace::Kind::kMount);
  if (!here.valid() || !there.valid()) GTEST_SKIP() << "mount namespaces are not to be had here";
  const auto part = [this](const Namespace& files, uint32_t own, uint32_t other) {
    return [this, &files, own, other](Stage& stage) {
      need(files.enter(), "setns");
      Party party(options_);
      exchange(party, stage, own, other);
    };
  };
  Actor one(*stage_, part(here, 0, 1));
  Actor two(*stage_, part(there, 1, 0));
  EXPECT_EQ(one.join(), 0) << stage_->words.data();
  EXPECT_EQ(two.join(), 0) << stage_->words.data();
  for (const Namespace* const files : {&here, &there}) {
    EXPECT_TRUE(files->list("/tmp").empty());
    EXPECT_TRUE(files->list("/dev/shm").empty());
  }
}

// Two processes of the first user and two of the second, at the same time: each reaches its own,
// the second knows why it reaches no other host, and neither hears of the other.
TEST_F(Sharing, AnotherUserServesItselfAndIsToldWhy) {
  if (!is_root()) GTEST_SKIP() << "another user takes root";
  const auto part = [this](bool nobody, uint32_t own, uint32_t other) {
    return [this, nobody, own, other](Stage& stage) {
      if (nobody) {
        need(wait_until([&] { return stage.steps[0] >= 1 && stage.steps[1] >= 1; }), "no first");
        need(become_nobody(), "setuid");
      }
      Party party(options_);
      device::Device& device = party.context().device();
      need(device.notice().empty() != nobody, "the notice is wrong: " + device.notice());
      if (nobody) tell(device.notice());
      exchange(party, stage, own, other);
      // Both pairs are there until both have done: slots of the two groups may well be the same.
      need(wait_until([&] {
             return std::ranges::all_of(stage.steps, [](const auto& s) { return s >= 3; });
           }),
           "the other pair did not come to an end");
      const device::Engine::Locked locked(device.engine());
      need(device.engine().host().members() <= 2, "members of two users in one group");
      need(locked.endpoint().counters().at(static_cast<size_t>(transport::Counter::kDropNoQp)) ==
                   0 &&
               device.engine().host().counters().unclaimed == 0,
           "somebody else's packets came");
    };
  };
  Actor first(*stage_, part(false, 0, 1));
  Actor second(*stage_, part(false, 1, 0));
  Actor third(*stage_, part(true, 2, 3));
  Actor fourth(*stage_, part(true, 3, 2));
  EXPECT_EQ(first.join(), 0) << stage_->words.data();
  EXPECT_EQ(second.join(), 0) << stage_->words.data();
  EXPECT_EQ(third.join(), 0) << stage_->words.data();
  EXPECT_EQ(fourth.join(), 0) << stage_->words.data();
  std::printf("the other user reads: %s\n", stage_->words.data());
  EXPECT_NE(std::string(stage_->words.data()).find("is held by root"), std::string::npos);
}

TEST_F(Sharing, WhoWantsTheNetworkOrNothingIsRefusedWithTheReason) {
  const UniqueFd holder = occupy(options_.engine.host.udp.port);
  ASSERT_TRUE(holder.valid());
  options_.engine.host.this_host_if_taken = false;
  Actor actor(*stage_, [this](Stage&) { const Party party(options_); });
  EXPECT_EQ(actor.join(), 1);
  std::printf("refused: %s\n", stage_->words.data());
  const std::string port = "UDP port " + std::to_string(options_.engine.host.udp.port);
  EXPECT_EQ(std::string(stage_->words.data()).find(port + " is held by "), 0u);
}

TEST_F(Sharing, WhereThePortIsAnothersThisHostIsServed) {
  const uint16_t port = options_.engine.host.udp.port;
  UniqueFd holder = occupy(port);
  ASSERT_TRUE(holder.valid());
  const auto part = [this](uint32_t own, uint32_t other) {
    return [this, own, other](Stage& stage) {
      Party party(options_);
      device::Device& device = party.context().device();
      need(device.notice().find("is held by ") != std::string::npos, "no notice");
      tell(device.notice());
      const auto index = device.gids().find(kLoopback);
      // From an address of the network, if there is one, no other host is reached.
      const auto network = device.gids().at(0);
      if (network && !network->loopback && network->gid.is_ipv4()) {
        const auto path =
            device.resolve({.destination = wire::Gid::from_ipv4(192, 0, 2, 1), .source_index = 0});
        need(!path && path.error() == ENETUNREACH, "a path to another host");
      }
      need(index && device.resolve({.destination = kLoopback, .source_index = *index}),
           "no path to this host");
      exchange(party, stage, own, other);
      // Much at once comes as on the other port: in runs.
      for (uint8_t i = 0; i < 4; ++i) need(party.echo(0, 400'000, i), "much does not arrive");
      stage.steps[own] = 4;
      need(wait_until([&] { return stage.steps[2] >= 3; }), "the latecomer did not come");
      const device::Engine::Locked locked(device.engine());
      need(locked.endpoint().counters().at(static_cast<size_t>(transport::Counter::kRunsReceived)) >
               0,
           "no runs");
    };
  };
  Actor one(*stage_, part(0, 1));
  Actor two(*stage_, part(1, 0));
  ASSERT_TRUE(wait_until([&] { return stage_->steps[0] >= 4 && stage_->steps[1] >= 4; }))
      << stage_->words.data();
  std::printf("notice: %s\n", stage_->words.data());
  // The port is free again, but who is there decides: a latecomer must reach them.
  holder.reset();
  Actor late(*stage_, [this](Stage& stage) {
    Party party(options_);
    device::Engine& engine = party.context().device().engine();
    const bool together = wait_until([&] {
      const device::Engine::Locked locked(engine);
      return engine.host().members() == 3;
    });
    stage.steps[2] = 3;
    need(together, "the latecomer is alone");
  });
  EXPECT_EQ(late.join(), 0) << stage_->words.data();
  EXPECT_EQ(one.join(), 0) << stage_->words.data();
  EXPECT_EQ(two.join(), 0) << stage_->words.data();
  link::MembershipOptions host = options_.engine.host;
  for (const uint16_t candidate : link::candidate_ports(port)) {
    host.udp.port = candidate;
    EXPECT_EQ(leftovers(host), "");
  }
}

}  // namespace
}  // namespace verbena::processes
