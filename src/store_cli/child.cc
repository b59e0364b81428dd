// SPDX-License-Identifier: Apache-2.0
#include "store_cli/child.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>

#include <poll.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "store_cli/interrupts.h"

namespace verbena::store_cli {
namespace {

// The program has the signals as they are by default, not as catch_interrupts() left them.
class DefaultSignals {
 public:
  DefaultSignals() {
    posix_spawnattr_init(&attributes_);
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGPIPE);
    posix_spawnattr_setsigdefault(&attributes_, &signals);
    posix_spawnattr_setflags(&attributes_, POSIX_SPAWN_SETSIGDEF);
  }
  DefaultSignals(const DefaultSignals&) = delete;
  DefaultSignals& operator=(const DefaultSignals&) = delete;
  ~DefaultSignals() { posix_spawnattr_destroy(&attributes_); }
  [[nodiscard]] const posix_spawnattr_t* get() const { return &attributes_; }

 private:
  posix_spawnattr_t attributes_{};
};

}  // namespace

Result<int, cli::NoProgram> run_child(const std::vector<std::string>& words) {
  const char* const path = std::getenv("PATH");
  const auto program = cli::find_program(words.front(), path == nullptr ? "" : path);
  if (!program) return fail(program.error());
  std::vector<char*> arguments;
  for (const std::string& word : words) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  pid_t pid = 0;
  const DefaultSignals signals;
  const int error =
      posix_spawn(&pid, program->c_str(), nullptr, signals.get(), arguments.data(), environ);
  if (error != 0) {
    return fail(cli::NoProgram{cli::kNotExecutable, *program + ": " + std::strerror(error)});
  }
  // A signal may have been taken by another thread of this process, or before the wait began: it is
  // looked for from time to time.
  const UniqueFd ends(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  pollfd until_end{.fd = ends.get(), .events = POLLIN, .revents = 0};
  for (bool told = false;;) {
    int status = 0;
    const pid_t ended = ::waitpid(pid, &status, WNOHANG);
    if (ended == pid) {
      return WIFEXITED(status) ? WEXITSTATUS(status) : exit_status_of_signal(WTERMSIG(status));
    }
    if (ended < 0 && errno != EINTR) return fail(cli::NoProgram{1, std::strerror(errno)});
    // Ctrl-C has reached the program as well.
    const int signal = interrupted();
    if (!told && (signal == SIGTERM || signal == SIGHUP)) ::kill(pid, signal);
    told = signal != 0;
    constexpr int kLookEveryMs = 50;
    (void)::poll(&until_end, 1, kLookEveryMs);
  }
}

}  // namespace verbena::store_cli
