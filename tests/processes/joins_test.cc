// SPDX-License-Identifier: Apache-2.0
// Processes that join while a member binds ports: a newcomer holds the group's lock and waits for
// the member's answer, the member wants that lock for its port. Neither may wait for the other, and
// the member's data calls wait for neither; also where the two do not see one another's process
// numbers. How long joining takes, in simulated time: tests/members_sim.
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>
#include <vector>

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "cm/service.h"
#include "link/clock.h"
#include "link/unix_names.h"
#include "processes/actor.h"
#include "processes/crowd.h"

namespace verbena::processes {
namespace {

constexpr uint64_t kBoundService = cm::service_id(cm::PortSpace::kTcp, 7472);
constexpr uint32_t kNewcomers = 25;

[[nodiscard]] cm::Service& service_of(Party& party) {
  return party.context().device().engine().connections();
}

class Joining : public ::testing::Test {
 protected:
  Joining() : stage_(make_stage()) { options_.engine = own_engine_options(); }
  ~Joining() override { drop_stage(stage_); }

  // Binds a port and gives it back, again and again, until the test says so. What a bind gave that
  // was not 0 is in numbers[0].
  std::function<void(Stage&)> binder() {
    return [this](Stage& stage) {
      Party party(options_);
      cm::Service& service = service_of(party);
      const cm::PortClaim claim{.service_id = kBoundService, .address = {}};
      while (stage.numbers[7] == 0) {
        const int error = service.claim(claim);
        if (error == 0) {
          service.give_back(claim);
        } else {
          stage.numbers[0] = static_cast<uint64_t>(error);
        }
        ++stage.numbers[1];
      }
    };
  }
  // One process after the other opens the device and leaves.
  void join_many(const std::function<void(Stage&)>& newcomer) {
    for (uint32_t i = 0; i < kNewcomers; ++i) {
      Actor actor(*stage_, newcomer);
      EXPECT_EQ(actor.join(), 0) << stage_->words.data();
    }
    stage_->numbers[7] = 1;
  }
  void join_once() {
    auto device = device::Device::acquire(options_.engine);
    need(device.has_value(), device ? "" : device.error().what);
  }

  [[nodiscard]] link::GroupNames names_of(Party& party) {
    return {options_.engine.host.group, party.context().device().engine().host().port()};
  }

  PartyOptions options_;
  Stage* stage_;
};

TEST_F(Joining, WhileAMemberBindsNeitherFails) {
  Actor member(*stage_, binder());
  ASSERT_TRUE(wait_until([&] { return stage_->numbers[1] != 0; })) << stage_->words.data();
  join_many([this](Stage&) { join_once(); });
  EXPECT_EQ(member.join(), 0) << stage_->words.data();
  EXPECT_EQ(stage_->numbers[0], 0u) << std::strerror(static_cast<int>(stage_->numbers[0].load()));
}

TEST_F(Joining, FromAnotherPidNamespaceNeitherFails) {
  if (!is_root()) GTEST_SKIP() << "a pid namespace takes root";
  Actor member(*stage_, binder());
  ASSERT_TRUE(wait_until([&] { return stage_->numbers[1] != 0; })) << stage_->words.data();
  join_many([this](Stage& stage) {
    need(::unshare(CLONE_NEWPID) == 0, "no pid namespace");
    Actor inside(stage, [this](Stage&) {
      need(::getpid() == 1, "not in it");
      join_once();
    });
    need(inside.join() == 0, stage.words.data());
  });
  EXPECT_EQ(member.join(), 0) << stage_->words.data();
  EXPECT_EQ(stage_->numbers[0], 0u) << std::strerror(static_cast<int>(stage_->numbers[0].load()));
}

// The lock is held by somebody who does not go on for a while: a bind waits for it, and nothing
// else does.
TEST_F(Joining, ABindThatWaitsHoldsUpNothingElse) {
  Actor member(*stage_, [this](Stage&) {
    Party party(options_);
    device::Context& context = party.context();
    auto held = link::GroupLock::take(names_of(party), kSecond);
    need(held.has_value(), "the lock is another's");
    std::atomic<int> claimed = -1;
    std::thread binding(
        [&] { claimed = service_of(party).claim({.service_id = kBoundService, .address = {}}); });
    // The bind waits for as long as the test does, for the lock's holder goes on.
    constexpr uint32_t kCalls = 101;
    const Time since = link::monotonic_now();
    const auto waited = [since] { return link::monotonic_now() - since; };
    uint32_t calls = 0;
    // At first it may not have begun to wait.
    for (; claimed == -1 && (calls < kCalls || waited() < 300 * kMillisecond); ++calls) {
      if (waited() > kPatience / 2) break;
      auto pd = context.alloc_pd();
      need(pd.has_value() && context.dealloc_pd(**pd) == 0, "no protection domain");
    }
    const bool waiting = claimed == -1;
    held = fail(0);
    binding.join();
    need(waiting, "the bind gave up");
    need(calls >= kCalls, "only " + std::to_string(calls) + " calls while a bind waited");
    need(claimed == 0, "the bind failed: " + std::string(std::strerror(claimed)));
  });
  EXPECT_EQ(member.join(), 0) << stage_->words.data();
}

// Children that live on while their parent binds: none has taken the lock along.
TEST_F(Joining, AForkedChildNeverHasTheLock) {
  Actor member(*stage_, [this](Stage&) {
    Party party(options_);
    std::atomic<bool> stop = false;
    std::thread binding([&] {
      const cm::PortClaim claim{.service_id = kBoundService, .address = {}};
      while (!stop) {
        if (service_of(party).claim(claim) == 0) service_of(party).give_back(claim);
      }
    });
    std::vector<pid_t> children;
    for (int i = 0; i < 100; ++i) {
      const pid_t child = ::fork();
      if (child == 0) {
        for (;;) ::pause();
      }
      children.push_back(child);
    }
    stop = true;
    binding.join();
    const bool free = link::GroupLock::take(names_of(party), kSecond).has_value();
    for (const pid_t child : children) {
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
    }
    need(free, "a child has the lock");
  });
  EXPECT_EQ(member.join(), 0) << stage_->words.data();
}

}  // namespace
}  // namespace verbena::processes
