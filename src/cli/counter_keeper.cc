// SPDX-License-Identifier: Apache-2.0
#include "cli/counter_keeper.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <map>
#include <string>

#include <fcntl.h>
#include <linux/close_range.h>
#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "link/port_counters.h"

namespace verbena::cli {
namespace {

using Files = std::map<std::string, const identity::CounterFile*>;

[[nodiscard]] Files counter_files(const identity::Tree& tree) {
  Files files;
  for (const auto& [path, node] : tree.nodes()) {
    if (node.counter != nullptr) files.emplace(path, node.counter);
  }
  return files;
}

// Whole for whoever reads it, at any time.
void replace_file(const std::string& path, const std::string& content) {
  const std::string next = path + ".next";
  const UniqueFd fd(::open(next.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0444));
  const auto size = static_cast<ssize_t>(content.size());
  if (!fd.valid() || ::write(fd.get(), content.data(), content.size()) != size) return;
  (void)!::rename(next.c_str(), path.c_str());
}

// Until the program of the descriptor ends.
void keep(const Files& files, int program) {
  constexpr int kEveryMs = 500;
  link::PortCounterReader reader;
  std::map<std::string, std::string> shown;
  for (pollfd ended{program, POLLIN, 0}; ::poll(&ended, 1, kEveryMs) == 0;) {
    const link::PortTotals totals = reader.read();
    for (const auto& [path, file] : files) {
      const std::string text = identity::counter_text(*file, totals);
      if (std::exchange(shown[path], text) != text) replace_file(path, text);
    }
  }
}

// Nothing of the caller's is held: no pipe's end, no terminal, no directory.
[[nodiscard]] int leave_caller(int program) {
  ::setsid();
  (void)!::chdir("/");
  constexpr int kKept = 3;
  if (program != kKept && ::dup2(program, kKept) < 0) return -1;
  (void)::syscall(__NR_close_range, kKept + 1, ~0U, 0);
  const int nothing = ::open("/dev/null", O_RDWR);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (nothing >= 0) (void)::dup2(nothing, fd);
    if (nothing < 0) ::close(fd);
  }
  if (nothing > kKept) ::close(nothing);
  ::prctl(PR_SET_NAME, "verbena-count");
  return kKept;
}

}  // namespace

void start_counter_keeper(const identity::Tree& tree) {
  const UniqueFd program(static_cast<int>(::syscall(SYS_pidfd_open, ::getpid(), 0)));
  std::array<int, 2> ends{};
  if (!program.valid() || ::pipe2(ends.data(), O_CLOEXEC) != 0) return;
  UniqueFd ready(ends[0]);
  UniqueFd told(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return;
  if (child > 0) {
    // Its files are its own when it says so, or is gone. The child itself is not the program's.
    told.reset();
    char word = 0;
    while (::read(ready.get(), &word, 1) < 0 && errno == EINTR) {}
    while (::waitpid(child, nullptr, 0) < 0 && errno == EINTR) {}
    return;
  }
  if (::fork() != 0) ::_exit(0);
  // The same mounts once more: those of the program are closed to writing next, these are not.
  if (::unshare(CLONE_NEWNS) != 0) ::_exit(1);
  (void)!::write(told.get(), "r", 1);
  const int watched = leave_caller(program.get());
  if (watched >= 0) keep(counter_files(tree), watched);
  ::_exit(0);
}

}  // namespace verbena::cli
