// SPDX-License-Identifier: Apache-2.0
// Another user of this host, for tests of what one user can do to another. Takes root.
#pragma once

#include <functional>

#include <grp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace verbena::testing {

inline constexpr uid_t kNobody = 65534;

// For good; in a child process therefore. False: this process may not.
[[nodiscard]] inline bool become_nobody() {
  return ::setgroups(0, nullptr) == 0 && ::setgid(kNobody) == 0 && ::setuid(kNobody) == 0;
}

[[nodiscard]] inline bool can_become_nobody() { return ::geteuid() == 0; }

// Starts a process of user nobody that ends with what `part` returns, below 100; 100: it could not
// become nobody.
[[nodiscard]] inline pid_t start_as_nobody(const std::function<int()>& part) {
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  if (!become_nobody()) ::_exit(100);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(101);
  ::_exit(part());
}

// What it returned; -1: it was killed.
[[nodiscard]] inline int result_of(pid_t pid) {
  int status = 0;
  if (::waitpid(pid, &status, 0) != pid || !WIFEXITED(status)) return -1;
  return WEXITSTATUS(status);
}

}  // namespace verbena::testing
