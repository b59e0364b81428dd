// SPDX-License-Identifier: Apache-2.0
#include "pair.h"

#include <csignal>
#include <cstdio>
#include <thread>

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "budget.h"

namespace verbena::device::testing {
namespace {

int far_pid = -1;

// Each end waits for the other before it takes its objects down: their last ACKs may be on the way.
void play(const PairOptions& setup, Control control, bool with_faults, const Script& script,
          const char* who) {
  try {
    End end(setup, std::move(control), with_faults);
    script(end);
    end.barrier();
  } catch (const Broken& problem) {
    ADD_FAILURE() << who << " end: " << problem.what();
  }
}

void reap(int pid) {
  int status = 0;
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (::waitpid(pid, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > end) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
      ADD_FAILURE() << "the far process does not end";
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
      << "the far process failed, status " << status;
}

}  // namespace

int far_process() { return far_pid; }

void run_pair(const PairOptions& setup, const Script& near, const Script& far) {
  (void)engine_options();  // before the fork: both use the same port
  auto [ours, theirs] = Control::make();
  if (setup.one_process) {
    std::thread other([&setup, &far, control = std::move(theirs)]() mutable {
      play(setup, std::move(control), false, far, "far");
    });
    play(setup, std::move(ours), true, near, "near");
    other.join();
    return;
  }
  std::fflush(nullptr);
  const int pid = ::fork();
  ASSERT_GE(pid, 0);
  if (pid == 0) {
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    ours.close();
    PairOptions other = setup;
    other.seed += 1'000'000;
    play(other, std::move(theirs), true, far, "far");
    std::fflush(nullptr);
    ::_exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  theirs.close();
  far_pid = pid;
  play(setup, std::move(ours), true, near, "near");
  reap(pid);
  far_pid = -1;
}

}  // namespace verbena::device::testing
