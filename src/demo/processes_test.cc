// SPDX-License-Identifier: Apache-2.0
#include "demo/processes.h"

#include <array>
#include <csignal>

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace verbena::demo {
namespace {

TEST(Processes, TalkAndEndWell) {
  char heard = 0;
  EXPECT_EQ(run_processes([](Line& line) { line.tell('x'); },
                          [&](Line& line) { heard = line.hear<char>(); }),
            "");
  EXPECT_EQ(heard, 'x');
}

TEST(Processes, GiveTheTargetsReason) {
  EXPECT_EQ(run_processes([](Line&) { throw Problem("no luck"); },
                          [](Line& line) { (void)line.hear<char>(); }),
            "the target process: no luck");
}

TEST(Processes, GiveTheInitiatorsReasonAndEndTheTarget) {
  EXPECT_EQ(run_processes([](Line&) { ::pause(); }, [](Line&) { throw Problem("no luck"); }),
            "no luck");
}

TEST(Processes, SayThatTheTargetWasKilled) {
  const std::string why = run_processes([](Line&) { (void)::raise(SIGKILL); },
                                        [](Line& line) { (void)line.hear<char>(); });
  EXPECT_NE(why.find("ended by a signal"), std::string::npos) << why;
}

TEST(Processes, TheTargetDiesWithTheInitiator) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  UniqueFd ours(pipe[0]);
  UniqueFd theirs(pipe[1]);
  const pid_t initiator = ::fork();
  ASSERT_GE(initiator, 0);
  if (initiator == 0) {
    ours.reset();
    (void)run_processes(
        [&](Line&) {
          (void)!::write(theirs.get(), "x", 1);
          ::pause();
        },
        [](Line&) { ::pause(); });
    ::_exit(0);
  }
  theirs.reset();
  char byte = 0;
  ASSERT_EQ(::read(ours.get(), &byte, 1), 1);  // the target runs
  ::kill(initiator, SIGKILL);
  ::waitpid(initiator, nullptr, 0);
  // The pipe ends when nobody holds its other side.
  pollfd entry{ours.get(), POLLIN, 0};
  ASSERT_EQ(::poll(&entry, 1, 20'000), 1);
  EXPECT_EQ(::read(ours.get(), &byte, 1), 0);
}

}  // namespace
}  // namespace verbena::demo
