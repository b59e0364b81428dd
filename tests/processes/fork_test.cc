// SPDX-License-Identifier: Apache-2.0
// Programs that fork with the device open: the child has none of our descriptors and harms nobody,
// outlives its parent, may open the device anew; what it inherited does nothing, however it is
// used.
#include <array>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "processes/actor.h"
#include "processes/crowd.h"

#if defined(__SANITIZE_THREAD__)
// A child of a process with threads starts one here, which is what is tested.
extern "C" const char* __tsan_default_options() { return "die_after_fork=0"; }
#endif

namespace verbena::processes {
namespace {

// Sockets, memfds, epoll and timer descriptors of a process, one per line.
[[nodiscard]] std::string descriptors_of(pid_t pid) {
  std::string found;
  std::error_code error;
  for (const auto& item :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/fd", error)) {
    const std::string target = std::filesystem::read_symlink(item.path(), error);
    for (const char* const kind : {"socket:", "memfd:", "[eventpoll]", "[timerfd]"}) {
      if (target.find(kind) != std::string::npos) found += target + "\n";
    }
  }
  return found;
}

class Forks : public ::testing::Test {
 protected:
  Forks() : stage_(make_stage()) { options_.engine = own_engine_options(); }
  ~Forks() override { drop_stage(stage_); }
  [[nodiscard]] bool reached(uint32_t number, uint32_t step) {
    return wait_until([&] { return stage_->steps[number] >= step; });
  }
  // A process with a connection to card 0, that shows card `number`.
  static void meet(Party& party, Stage& stage, uint32_t number, uint32_t other) {
    stage.cards[number] = party.card();
    stage.steps[number] = 1;
    if (!wait_until([&] { return stage.steps[other] >= 1; })) throw std::runtime_error("alone");
    party.connect(stage.cards[other], wire::Gid::from_ipv4(127, 0, 0, 1));
    stage.steps[number] = 2;
    if (!wait_until([&] { return stage.steps[other] >= 2; })) throw std::runtime_error("alone");
  }

  PartyOptions options_;
  Stage* stage_;
};

TEST_F(Forks, AChildThatOutlivesItsParentDoesNoHarm) {
  const std::string before = descriptors_of(::getpid());
  Actor parent(*stage_, [this](Stage& stage) {
    Party party(options_);
    const pid_t child = ::fork();
    if (child == 0) {
      ::prctl(PR_SET_PDEATHSIG, 0);
      stage.numbers[0] = static_cast<uint64_t>(::getpid());
      for (int i = 0; i < 120'000 && stage.steps[3] == 0; ++i) ::usleep(1000);
      ::_exit(0);
    }
    meet(party, stage, 0, 1);
    stage.numbers[1] = party.context().device().engine().slot();
    while (party.next()) {}
  });
  Actor other(*stage_, [this](Stage& stage) {
    Party party(options_);
    meet(party, stage, 1, 0);
    if (!party.echo(0, 5000, 1)) throw std::runtime_error("the parent does not serve");
    stage.steps[1] = 3;
    if (!reached(2, 1)) return;  // the test says: the parent is killed
    const auto alone = [&] {
      const device::Engine::Locked locked(party.context().device().engine());
      return party.context().device().engine().host().members() == 1;
    };
    if (!wait_until(alone)) throw std::runtime_error("the parent's slot is not freed");
  });
  ASSERT_TRUE(reached(1, 3)) << stage_->words.data();
  ASSERT_TRUE(wait_until([&] { return stage_->numbers[0] != 0; }));
  const auto child = static_cast<pid_t>(stage_->numbers[0].load());
  EXPECT_EQ(descriptors_of(child), before);
  parent.signal(SIGKILL);
  (void)parent.join();
  stage_->steps[2] = 1;
  EXPECT_EQ(other.join(), 0) << stage_->words.data();
  ASSERT_EQ(::kill(child, 0), 0);                  // it is still there,
  EXPECT_EQ(leftovers(options_.engine.host), "");  // and nothing of ours with it

  // The next start is clean.
  for (auto& step : stage_->steps) step = 0;
  Actor first(*stage_, [this](Stage& stage) {
    Party party(options_);
    meet(party, stage, 0, 1);
    (void)reached(1, 3);
  });
  Actor second(*stage_, [this](Stage& stage) {
    Party party(options_);
    meet(party, stage, 1, 0);
    const bool right = party.echo(0, 5000, 9);
    stage.steps[1] = 3;
    if (!right) throw std::runtime_error("newcomers do not reach one another");
  });
  EXPECT_EQ(second.join(), 0) << stage_->words.data();
  EXPECT_EQ(first.join(), 0) << stage_->words.data();
  stage_->steps[3] = 1;  // the child may go
}

TEST_F(Forks, AChildThatOpensTheDeviceAnewWorks) {
  Actor parent(*stage_, [this](Stage& stage) {
    Party party(options_);
    // AddressSanitizer's allocator knows nothing of fork: if our helper is in it at that moment,
    // the child's waits for it for ever. So the helper is to sleep.
    if (kSanitized) ::usleep(100'000);
    const pid_t child = ::fork();
    if (child == 0) {
      int status = 1;
      try {
        Party own(options_);
        meet(own, stage, 1, 0);
        status = own.echo(0, 9000, 3) ? 0 : 2;
        (void)reached(0, 3);  // the parent has its answers from us
      } catch (const std::exception& problem) {
        std::strncpy(stage.words.data(), problem.what(), stage.words.size() - 1);
      }
      stage.steps[1] = 3;
      ::_exit(status);
    }
    meet(party, stage, 0, 1);
    const bool right = party.echo(0, 9000, 5);
    stage.steps[0] = 3;
    if (!right) throw std::runtime_error("the parent's device is broken");
    int status = 0;
    ::waitpid(child, &status, 0);
    stage.numbers[0] = static_cast<uint64_t>(WEXITSTATUS(status));
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
      throw std::runtime_error(std::string("the child: ") + stage.words.data());
    }
  });
  EXPECT_EQ(parent.join(), 0) << stage_->words.data();
  EXPECT_EQ(leftovers(options_.engine.host), "");
}

// Many forks while one thread polls and another posts: whatever was half done at that moment, the
// child takes its copy of the objects apart and ends, and the parent's connection goes on.
TEST_F(Forks, WhileOthersPollAndPost) {
  constexpr int kForks = kSanitized ? 15 : 40;
  Actor parent(*stage_, [this](Stage& stage) {
    auto party = std::make_unique<Party>(options_);
    meet(*party, stage, 0, 1);
    std::atomic<bool> stop{false};
    std::atomic<bool> wrong{false};
    std::thread worker([&] {
      for (uint8_t pattern = 0; !stop; ++pattern) wrong = wrong || !party->echo(0, 3000, pattern);
    });
    device::Context& context = party->context();
    std::thread poller([&] {
      auto cq = context.create_cq(4, nullptr);
      std::array<transport::Completion, 1> none;
      while (!stop) (void)context.poll_cq(**cq, none);
      (void)context.destroy_cq(**cq);
    });
    std::string problem;
    for (int i = 0; i < kForks && problem.empty(); ++i) {
      const pid_t child = ::fork();
      if (child == 0) {
        ::alarm(60);  // a child that hangs ends
        party->post_recv(0, 0, 8);
        party.reset();
        ::_exit(7);
      }
      int status = 0;
      ::waitpid(child, &status, 0);
      if (!WIFEXITED(status) || WEXITSTATUS(status) != 7) {
        problem = "child " + std::to_string(i) + " ended with status " + std::to_string(status);
      }
    }
    stop = true;
    worker.join();
    poller.join();
    stage.steps[0] = 3;
    if (!problem.empty()) throw std::runtime_error(problem);
    if (wrong) throw std::runtime_error("the parent's connection suffered");
  });
  Actor other(*stage_, [this](Stage& stage) {
    Party party(options_);
    meet(party, stage, 1, 0);
    (void)reached(0, 3);
  });
  EXPECT_EQ(parent.join(), 0) << stage_->words.data();
  EXPECT_EQ(other.join(), 0) << stage_->words.data();
  EXPECT_EQ(leftovers(options_.engine.host), "");
}

// The same beside a thread that asks for events of a completion channel and of the context.
TEST_F(Forks, WhileOthersAskForEvents) {
  constexpr int kForks = kSanitized ? 30 : 200;
  Actor parent(*stage_, [this](Stage&) {
    auto device = device::Device::acquire(options_.engine);
    if (!device) throw std::runtime_error(device.error().what);
    device::Context context(*device);
    device::CompletionChannel channel;
    for (const int fd : {channel.fd(), context.events().fd()}) ::fcntl(fd, F_SETFL, O_NONBLOCK);
    auto cq = std::move(*context.create_cq(4, &channel));
    cq->cookie = cq.get();
    std::atomic<bool> stop{false};
    std::thread asker([&] {
      device::CompletionQueue* woken = nullptr;
      while (!stop) (void)context.get_cq_event(channel, woken);
    });
    std::thread other([&] {
      device::AsyncEvent event;
      while (!stop) {
        context.events().raise({device::EventType::kGidChange, nullptr});
        (void)context.events().wait(event);
      }
    });
    int failed = 0;
    for (int i = 0; i < kForks && failed == 0; ++i) {
      const pid_t child = ::fork();
      if (child == 0) {
        ::alarm(10);  // a child that hangs ends
        ::_exit(context.destroy_cq(*cq) == 0 ? 7 : 1);
      }
      int status = 0;
      ::waitpid(child, &status, 0);
      if (!WIFEXITED(status) || WEXITSTATUS(status) != 7) failed = i + 1;
    }
    stop = true;
    asker.join();
    other.join();
    (void)context.destroy_cq(*cq);
    if (failed != 0) throw std::runtime_error("child " + std::to_string(failed) + " hangs");
  });
  EXPECT_EQ(parent.join(), 0) << stage_->words.data();
}

// A child that takes its copy of the objects apart drops their events, which are the parent's.
TEST_F(Forks, AChildTakesNoEvents) {
  Actor parent(*stage_, [this](Stage&) {
    auto device = device::Device::acquire(options_.engine);
    if (!device) throw std::runtime_error(device.error().what);
    device::Context context(*device);
    device::CompletionChannel channel;
    auto cq = std::move(*context.create_cq(4, &channel));
    cq->cookie = cq.get();
    channel.notify(*cq);
    context.events().raise({device::EventType::kCqError, cq->cookie});
    for (const int fd : {channel.fd(), context.events().fd()}) ::fcntl(fd, F_SETFL, O_NONBLOCK);
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(60);  // a child that hangs ends
      device::CompletionQueue* given = nullptr;
      device::AsyncEvent event;
      if (context.get_cq_event(channel, given) != ENODEV) ::_exit(1);
      if (context.events().wait(event) != ENODEV) ::_exit(2);
      ::_exit(context.destroy_cq(*cq) == 0 ? 7 : 3);
    }
    int status = 0;
    ::waitpid(child, &status, 0);
    device::CompletionQueue* given = nullptr;
    device::AsyncEvent event;
    const bool channel_has_it = context.get_cq_event(channel, given) == 0 && given == cq.get();
    const bool context_has_it = context.events().wait(event) == 0;
    (void)context.destroy_cq(*cq);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 7) {
      throw std::runtime_error("the child ended with status " + std::to_string(status));
    }
    if (!channel_has_it || !context_has_it) throw std::runtime_error("the child took an event");
  });
  EXPECT_EQ(parent.join(), 0) << stage_->words.data();
}

// One thread opens and closes the device, another forks: no child has any of its descriptors.
TEST_F(Forks, WhileTheDeviceIsTakenDown) {
  constexpr int kForks = kSanitized ? 30 : 150;
  const std::string before = descriptors_of(::getpid());
  Actor parent(*stage_, [&](Stage& stage) {
    std::atomic<bool> stop{false};
    std::thread opener([&] {
      while (!stop) (void)device::Device::acquire(options_.engine);
    });
    std::string found;
    for (int i = 0; i < kForks && found.empty(); ++i) {
      const pid_t child = ::fork();
      const auto number = static_cast<uint32_t>(i + 1);
      if (child == 0) {
        stage.steps[0] = number;
        ::pause();
        ::_exit(0);
      }
      (void)reached(0, number);
      found = descriptors_of(child);
      if (found == before) found.clear();
      ::kill(child, SIGKILL);
      ::waitpid(child, nullptr, 0);
      ::usleep(static_cast<useconds_t>(i % 10) * 100);
    }
    stop = true;
    opener.join();
    if (!found.empty()) throw std::runtime_error("a child has " + found);
  });
  EXPECT_EQ(parent.join(), 0) << stage_->words.data();
  EXPECT_EQ(leftovers(options_.engine.host), "");
}

}  // namespace
}  // namespace verbena::processes
