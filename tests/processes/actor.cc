// SPDX-License-Identifier: Apache-2.0
#include "processes/actor.h"

#include <cstdio>
#include <cstring>
#include <stdexcept>

#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"

namespace verbena::processes {

Stage* make_stage() {
  void* const at =
      ::mmap(nullptr, sizeof(Stage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  VERBENA_CHECK(at != MAP_FAILED);
  return static_cast<Stage*>(at);
}

void drop_stage(Stage* stage) { ::munmap(stage, sizeof(Stage)); }

Actor::Actor(Stage& stage, const std::function<void(Stage&)>& part) {
  const pid_t parent = ::getpid();
  pid_ = ::fork();
  if (pid_ != 0) return;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  // 0: the parent is outside of this pid namespace.
  if (const pid_t now = ::getppid(); now != parent && now != 0) ::_exit(1);
  try {
    part(stage);
  } catch (const std::exception& problem) {
    std::fprintf(stderr, "process %d: %s\n", ::getpid(), problem.what());
    std::strncpy(stage.words.data(), problem.what(), stage.words.size() - 1);
    ::_exit(1);
  }
  ::_exit(0);
}

Actor::~Actor() {
  if (pid_ <= 0) return;
  ::kill(pid_, SIGKILL);
  (void)join();
}

void Actor::signal(int number) const {
  ::kill(pid_, number);
  if (number == SIGSTOP) ::waitpid(pid_, nullptr, WUNTRACED);
}

int Actor::join() {
  int status = 0;
  ::waitpid(pid_, &status, 0);
  pid_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace verbena::processes
