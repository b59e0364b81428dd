// SPDX-License-Identifier: Apache-2.0
// Processes that sleep on completion channels, with the rings between them: what ends, stops or
// forks beside them costs nobody a message or a wake-up. Over sockets (processes_test_udp) as well.
#include <fstream>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "processes/actor.h"
#include "processes/crowd.h"

namespace verbena::processes {
namespace {

using transport::SendOp;
using transport::WcStatus;

class Rings : public ::testing::Test {
 protected:
  Rings() : stage_(make_stage()) {
    options_.engine = own_engine_options();
    options_.sleeps = true;
  }
  ~Rings() override { drop_stage(stage_); }
  [[nodiscard]] bool reached(uint32_t number, uint32_t step) {
    return wait_until([&] { return stage_->steps[number] >= step; });
  }
  // A process that sleeps for ever ends.
  [[nodiscard]] std::unique_ptr<Actor> actor(const std::function<void(Stage&)>& part) {
    return std::make_unique<Actor>(*stage_, [part](Stage& stage) {
      ::alarm(static_cast<unsigned>(kPatience / kSecond));
      part(stage);
    });
  }
  void show(Party& party, uint32_t number) {
    stage_->cards[number] = party.card();
    stage_->steps[number] = 1;
  }
  void meet(Party& party, uint32_t number, uint32_t other) {
    show(party, number);
    need(reached(other, 1), "alone");
    party.connect(stage_->cards[other], options_.address);
    stage_->steps[number] = 2;
    need(reached(other, 2), "alone");
  }
  static void expect_good(const std::optional<transport::Completion>& completion) {
    need(completion.has_value(), "no completion");
    need(completion->status == WcStatus::kSuccess, to_string(completion->status));
  }

  PartyOptions options_;
  Stage* stage_;
};

// A process has two threads that may be woken: one that sleeps on its channel, and the device's
// own.
TEST_F(Rings, WhoSleepsIsWokenEachTime) {
  constexpr uint8_t kRounds = 200;
  const auto near = actor([this](Stage& stage) {
    Party party(options_);
    meet(party, 0, 1);
    for (uint8_t i = 0; i < kRounds; ++i) {
      need(party.echo(0, 50'000, i), "round " + std::to_string(i));
    }
    stage.steps[0] = 3;
  });
  const auto far = actor([this](Stage& stage) {
    Party party(options_);
    meet(party, 1, 0);
    (void)wait_until([&] { return stage.steps[0] >= 3; });
  });
  EXPECT_EQ(near->join(), 0) << stage_->words.data();
}

// One that sends and is killed in the same moment; the receiver sleeps, gets what was sent, sleeps
// again, and is woken by another.
TEST_F(Rings, ASenderIsKilledWhileItsReceiverSleeps) {
  options_.type = transport::QpType::kUd;
  const auto receiver = actor([this](Stage& stage) {
    Party party(options_);
    for (int i = 0; i < 16; ++i) party.post_recv(0, 0, 4096);
    show(party, 0);
    for (uint64_t i = 1; i <= 11; ++i) {
      expect_good(party.next());
      stage.numbers[0] = i;
    }
  });
  ASSERT_TRUE(reached(0, 1)) << stage_->words.data();
  for (uint64_t i = 0; i < 5; ++i) {
    const auto sender = actor([this](Stage& stage) {
      Party party(options_);
      for (int k = 0; k < 2; ++k) party.post_datagram(stage.cards[0], options_.address, 64);
      // Not before: the device's own thread may be the one that sends.
      for (int k = 0; k < 2; ++k) expect_good(party.next());
      ::raise(SIGKILL);
    });
    EXPECT_EQ(sender->join(), 128 + SIGKILL);
    EXPECT_TRUE(wait_until([&] { return stage_->numbers[0] == 2 * (i + 1); })) << i;
  }
  const auto last = actor([this](Stage& stage) {
    Party party(options_);
    party.post_datagram(stage.cards[0], options_.address, 64);
    expect_good(party.next());
  });
  EXPECT_EQ(last->join(), 0) << stage_->words.data();
  EXPECT_EQ(receiver->join(), 0) << stage_->words.data();
  EXPECT_EQ(leftovers(options_.engine.host), "");
}

// Two that sleep in turn, beside one that is stopped and has more before it than a ring holds.
TEST_F(Rings, OneIsStoppedWhileTwoOthersExchange) {
  constexpr uint32_t kRounds = kSanitized ? 500 : 3'000;
  options_.timeout = 20;  // outlasts the stop
  const auto stopped = actor([this](Stage& stage) {
    PartyOptions polls = options_;
    polls.sleeps = false;
    Party party(polls);
    meet(party, 0, 1);
    (void)wait_until([&] { return stage.steps[1] >= 4; });
  });
  // Writes to the one, then plays with the other.
  const auto writer = actor([this](Stage& stage) {
    Party to_stopped(options_);
    meet(to_stopped, 1, 0);
    need(to_stopped.echo(0, 1000, 1), "the connection does not work");
    Party party(options_);
    stage.cards[2] = party.card();
    stage.steps[2] = 1;
    need(reached(3, 1), "alone");
    party.connect(stage.cards[3], options_.address);
    stage.steps[2] = 2;
    need(reached(3, 2), "alone");
    stage.numbers[1] = 1;
    need(wait_until([&] { return stage.numbers[2] == 1; }), "nobody was stopped");
    for (int i = 0; i < 16; ++i) to_stopped.post(0, SendOp::kWrite, 0, 256 * 1024);
    for (uint32_t i = 0; i < kRounds; ++i) {
      party.post_recv(0, 0, 64);
      party.post(0, SendOp::kSend, 0, 64);
      expect_good(party.next());
      expect_good(party.next());
      stage.numbers[3] = i + 1;
    }
    stage.steps[1] = 3;
    for (int i = 0; i < 16; ++i) expect_good(to_stopped.next());
    need(to_stopped.echo(0, 100'000, 2), "the connection suffered");
    stage.steps[1] = 4;
  });
  const auto other = actor([this](Stage& stage) {
    Party party(options_);
    for (int i = 0; i < 4; ++i) party.post_recv(0, 0, 64);
    stage.cards[3] = party.card();
    stage.steps[3] = 1;
    need(reached(2, 1), "alone");
    party.connect(stage.cards[2], options_.address);
    stage.steps[3] = 2;
    for (uint32_t received = 0, sent = 0; received < kRounds || sent < kRounds;) {
      const auto completion = party.next();
      expect_good(completion);
      if (completion->opcode != transport::WcOpcode::kRecv) {
        ++sent;
        continue;
      }
      ++received;
      party.post_recv(0, 0, 64);
      party.post(0, SendOp::kSend, 0, 64);
    }
    (void)wait_until([&] { return stage.steps[1] >= 3; });
  });
  ASSERT_TRUE(wait_until([&] { return stage_->numbers[1] == 1; })) << stage_->words.data();
  stopped->signal(SIGSTOP);
  stage_->numbers[2] = 1;
  EXPECT_TRUE(reached(1, 3)) << stage_->numbers[3] << " rounds; " << stage_->words.data();
  stopped->signal(SIGCONT);
  EXPECT_EQ(writer->join(), 0) << stage_->words.data();
  EXPECT_EQ(other->join(), 0) << stage_->words.data();
  EXPECT_EQ(stopped->join(), 0) << stage_->words.data();
}

[[nodiscard]] uint32_t rings_mapped_by(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/maps");
  uint32_t count = 0;
  for (std::string line; std::getline(file, line);) {
    if (line.find("verbena.ring") != std::string::npos) ++count;
  }
  return count;
}

// A child has none of its parent's rings, and its end takes nothing from them.
TEST_F(Rings, AForkedChildEnds) {
  const bool rings = options_.engine.link != link::LinkKind::kUdp;
  const auto parent = actor([this, rings](Stage& stage) {
    Party party(options_);
    meet(party, 0, 1);
    need(party.echo(0, 5000, 1), "the connection does not work");
    need((rings_mapped_by(::getpid()) != 0) == rings, "the link is another");
    for (uint8_t i = 0; i < 5; ++i) {
      const pid_t child = ::fork();
      if (child == 0) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        stage.numbers[0] = i + 1;
        ::pause();
        ::_exit(0);
      }
      need(wait_until([&] { return stage.numbers[0] == i + 1U; }), "no child");
      need(rings_mapped_by(child) == 0, "the child has rings");
      need(party.echo(0, 50'000, i), "the connection suffers beside a child");
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
      need(party.echo(0, 50'000, static_cast<uint8_t>(~i)), "the connection suffered");
    }
    stage.steps[0] = 3;
  });
  const auto other = actor([this](Stage& stage) {
    Party party(options_);
    meet(party, 1, 0);
    (void)wait_until([&] { return stage.steps[0] >= 3; });
  });
  ASSERT_EQ(parent->join(), 0) << stage_->words.data();
  EXPECT_EQ(other->join(), 0) << stage_->words.data();
  EXPECT_EQ(leftovers(options_.engine.host), "");
}

}  // namespace
}  // namespace verbena::processes
