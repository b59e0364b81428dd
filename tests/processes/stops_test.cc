// SPDX-License-Identifier: Apache-2.0
// Members that are stopped (SIGSTOP): the rest go on, with one another and with another host (how
// long they may take there is a matter of tests/host_sim); a stopped one that goes on, goes on, and
// its connections with it: it was off its core, no more. Who waits for one that stays stopped waits
// no longer than the device's patience and its queue pair's timeouts, also when not one packet was
// sent for want of room.
#include <algorithm>
#include <memory>
#include <optional>

#include <signal.h>
#include <unistd.h>

#include "processes/actor.h"
#include "processes/crowd.h"

namespace verbena::processes {
namespace {

using transport::SendOp;
using transport::WcStatus;

// Each of `from` does so many more rounds with each of `with`.
void expect_rounds(const Crowd& crowd, const std::vector<uint32_t>& from,
                   const std::vector<uint32_t>& with) {
  constexpr uint64_t kMore = 20;
  for (const uint32_t a : from) {
    for (const uint32_t b : with) {
      const uint64_t seen = crowd.rounds_with(a, {b});
      if (a == b) continue;
      EXPECT_TRUE(crowd.eventually([&] { return crowd.rounds_with(a, {b}) >= seen + kMore; }))
          << a << " with " << b;
    }
  }
}

// Stops some: the rest go on; then lets them go on, and all must get on with all.
void expect_the_rest_go_on(Crowd& crowd, const std::vector<uint32_t>& stopped) {
  const std::vector<uint32_t> all = crowd.sitting();
  std::vector<uint32_t> rest = all;
  std::erase_if(rest, [&](uint32_t seat) { return std::ranges::count(stopped, seat) != 0; });
  for (const uint32_t seat : stopped) crowd.stop(seat);
  expect_rounds(crowd, rest, rest);
  for (const uint32_t seat : stopped) crowd.go_on(seat);
  expect_rounds(crowd, stopped, all);
}

// A timeout that outlasts the stop: no connection may fail.
[[nodiscard]] MemberOptions patient() {
  MemberOptions options;
  options.engine = own_engine_options();
  options.timeout = 20;  // 4.3 s
  options.addresses = {wire::Gid::from_ipv4(127, 0, 0, 1)};
  return options;
}

TEST(Stops, TheRestGoOnOnOneHost) {
  const MemberOptions options = patient();
  Crowd crowd(options);
  for (uint32_t seat = 0; seat < 8; ++seat) crowd.start(seat);
  ASSERT_TRUE(crowd.eventually([&] { return crowd.all_talk(); }));
  expect_the_rest_go_on(crowd, {0, 5});
  EXPECT_TRUE(crowd.finish()) << crowd.failure();
  EXPECT_EQ(leftovers(options.engine.host), "");
}

TEST(Stops, TheRestGoOnTowardsAnotherHost) {
  if (!is_root()) GTEST_SKIP() << "two hosts (network namespaces) take root";
  const Namespace first(Namespace::Kind::kNetwork);
  const Namespace second(Namespace::Kind::kNetwork);
  if (!first.valid() || !second.valid() || !join_hosts(first, second)) {
    GTEST_SKIP() << "network namespaces are not to be had here";
  }
  MemberOptions options = patient();
  options.addresses = {wire::Gid::from_ipv4(10, 77, 0, 1), wire::Gid::from_ipv4(10, 77, 0, 2)};
  const auto host_of = [](uint32_t seat) { return seat < 4 ? 0u : 1u; };
  Crowd crowd(options, [&](uint32_t seat) {
    if (!(host_of(seat) == 0 ? first : second).enter()) ::_exit(1);
  });
  for (uint32_t seat = 0; seat < 6; ++seat) crowd.start(seat, host_of(seat));
  ASSERT_TRUE(crowd.eventually([&] { return crowd.all_talk(); }));
  expect_the_rest_go_on(crowd, {1});
  expect_the_rest_go_on(crowd, {0, 5});
  EXPECT_TRUE(crowd.finish()) << crowd.failure();
}

class StoppedPeer : public ::testing::Test {
 protected:
  StoppedPeer() : stage_(make_stage()) { options_.engine = own_engine_options(); }
  ~StoppedPeer() override { drop_stage(stage_); }

  // Shows its card as `number`, connects with the other's, and waits to be ended.
  std::unique_ptr<Actor> target(uint32_t number, uint32_t receives = 0) {
    return std::make_unique<Actor>(*stage_, [this, number, receives](Stage& stage) {
      Party party(options_);
      for (uint32_t i = 0; i < receives; ++i) party.post_recv(0, 0, 4096);
      stage.cards[number] = party.card();
      stage.steps[number] = 1;
      if (options_.type == transport::QpType::kRc) {
        (void)wait_until([&] { return stage.steps[0] >= 1; });
        party.connect(stage.cards[0], options_.address);
      }
      stage.steps[number] = 2;
      while (const auto completion = party.next()) ++stage.numbers[number];
    });
  }
  [[nodiscard]] bool reached(uint32_t number, uint32_t step) {
    return wait_until([&] { return stage_->steps[number] >= step; });
  }

  PartyOptions options_;
  Stage* stage_;
};

TEST_F(StoppedPeer, EndsQueuePairsThatNeverGotAPacketOut) {
  options_.engine.tuning.unread_patience = kSecond;
  // Together they want far more than a receiver's buffer: most are refused from the start.
  options_.qps = 32;
  options_.timeout = 12;
  options_.retries = 3;
  const auto stopped = target(1);
  Actor sender(*stage_, [this](Stage& stage) {
    Party party(options_);
    stage.cards[0] = party.card();
    stage.steps[0] = 1;
    if (!reached(1, 2)) return;
    party.connect(stage.cards[1], options_.address);
    if (!party.echo(0, 1000, 7)) throw std::runtime_error("the connection does not work");
    stage.steps[0] = 2;
    if (!reached(2, 1)) return;  // the test says: it is stopped
    for (uint32_t qp = 0; qp < options_.qps; ++qp) party.post(qp, SendOp::kWrite, 0, 32'768);
    for (uint32_t qp = 0; qp < options_.qps; ++qp) {
      const auto completion = party.next();
      if (!completion) throw std::runtime_error("a queue pair hangs");
      if (completion->status != WcStatus::kRetryExceeded) {
        throw std::runtime_error(to_string(completion->status));
      }
    }
    const device::Engine::Quiet locked(party.context().device().engine());
    stage.numbers[0] = party.context().device().engine().link().transmit_counters().packets;
  });
  ASSERT_TRUE(reached(0, 2)) << stage_->words.data();
  stopped->signal(SIGSTOP);
  stage_->steps[2] = 1;
  EXPECT_EQ(sender.join(), 0) << stage_->words.data();
}

TEST_F(StoppedPeer, ThatGoesOnHasItsConnections) {
  options_.timeout = 12;  // with its retries 67 ms, of which a process off its core knows nothing
  options_.retries = 3;
  const auto stopped = target(1);
  Actor sender(*stage_, [this](Stage& stage) {
    Party party(options_);
    stage.cards[0] = party.card();
    stage.steps[0] = 1;
    if (!reached(1, 2)) return;
    party.connect(stage.cards[1], options_.address);
    if (!party.echo(0, 1000, 7)) throw std::runtime_error("the connection does not work");
    stage.steps[0] = 2;
    if (!reached(2, 1)) return;  // the test says: it is stopped
    party.post(0, SendOp::kWrite, 0, 1000);
    if (party.next(kSecond)) throw std::runtime_error("who is stopped has answered");
    stage.steps[0] = 3;
    const auto completion = party.next();
    if (!completion) throw std::runtime_error("the queue pair hangs");
    if (completion->status != WcStatus::kSuccess) {
      throw std::runtime_error(to_string(completion->status));
    }
  });
  ASSERT_TRUE(reached(0, 2)) << stage_->words.data();
  stopped->signal(SIGSTOP);
  stage_->steps[2] = 1;
  EXPECT_TRUE(reached(0, 3)) << stage_->words.data();
  stopped->signal(SIGCONT);
  EXPECT_EQ(sender.join(), 0) << stage_->words.data();
}

TEST_F(StoppedPeer, DoesNotHoldUpDatagramsToOthers) {
  options_.type = transport::QpType::kUd;
  const auto stopped = target(1);
  const auto living = target(2, 8);
  Actor sender(*stage_, [this](Stage& stage) {
    Party party(options_);
    stage.steps[0] = 1;
    if (!reached(3, 1)) return;  // the test says: it is stopped
    for (int i = 0; i < 300; ++i) party.post_datagram(stage.cards[1], options_.address, 1024);
    party.post_datagram(stage.cards[2], options_.address, 1024);
    for (int i = 0; i < 301; ++i) {
      const auto completion = party.next();
      if (!completion) throw std::runtime_error("sending hangs");
      if (completion->status != WcStatus::kSuccess) {
        throw std::runtime_error(to_string(completion->status));
      }
    }
  });
  ASSERT_TRUE(reached(0, 1) && reached(1, 2) && reached(2, 2)) << stage_->words.data();
  stopped->signal(SIGSTOP);
  stage_->steps[3] = 1;
  EXPECT_EQ(sender.join(), 0) << stage_->words.data();
  EXPECT_TRUE(wait_until([&] { return stage_->numbers[2] == 1; }));
  stopped->signal(SIGCONT);
}

}  // namespace
}  // namespace verbena::processes
