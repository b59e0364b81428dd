// SPDX-License-Identifier: Apache-2.0
#include "common/ends.h"

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include <poll.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/unique_fd.h"

namespace verbena::bench {
namespace {

// Longer than any measurement; a hang ends the bench instead of waiting for somebody to notice.
constexpr unsigned kAlarmSeconds = 60;

void pin(int core) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(core, &set);
  must(::sched_setaffinity(0, sizeof set, &set) == 0 ? 0 : errno, "sched_setaffinity");
}

void write_all(int fd, const void* data, size_t bytes, const char* what) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t put = ::write(fd, at, bytes);
    must(put > 0 ? 0 : EIO, what);
    at += put;
    bytes -= static_cast<size_t>(put);
  }
}

[[nodiscard]] bool read_all(int fd, void* data, size_t bytes) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = ::read(fd, at, bytes);
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<size_t>(got);
  }
  return true;
}

// A child of ours, which dies with us.
[[nodiscard]] pid_t start(const std::function<void()>& body) {
  std::fflush(nullptr);
  const pid_t pid = ::fork();
  must(pid >= 0 ? 0 : errno, "fork");
  if (pid != 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::alarm(kAlarmSeconds);
  body();
  std::fflush(nullptr);
  ::_exit(0);
}

[[nodiscard]] double cpu_of(const rusage& usage) {
  const auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_usec) / 1e6;
  };
  return seconds(usage.ru_utime) + seconds(usage.ru_stime);
}

}  // namespace

void must(int error, const char* what) {
  if (error == 0) return;
  std::fprintf(stderr, "bench: %s: %s\n", what, std::strerror(error));
  std::_Exit(1);
}

double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

int core_of(Role role) {
  cpu_set_t allowed;
  must(::sched_getaffinity(0, sizeof allowed, &allowed) == 0 ? 0 : errno, "sched_getaffinity");
  int first = -1;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(core, &allowed)) continue;
    if (first >= 0) return core;
    first = core;
    if (role == Role::kInitiator) return core;
  }
  return first;
}

void Control::tell(const void* data, size_t bytes) const {
  write_all(fd_, data, bytes, "the other end is gone");
}

void Control::hear(void* data, size_t bytes) const {
  must(read_all(fd_, data, bytes) ? 0 : EPIPE, "the other end is gone");
}

void Control::barrier() const {
  char byte = 0;
  tell(&byte, 1);
  hear(&byte, 1);
}

bool Control::pending() const {
  pollfd waiting{fd_, POLLIN, 0};
  return ::poll(&waiting, 1, 0) > 0;
}

Measured run_ends(const End& end, bool spinners) {
  std::array<int, 2> pair{};
  std::array<int, 2> result{};
  must(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair.data()) == 0 ? 0 : errno,
       "socketpair");
  must(::pipe(result.data()) == 0 ? 0 : errno, "pipe");
  std::array<UniqueFd, 2> control{UniqueFd(pair[0]), UniqueFd(pair[1])};
  UniqueFd read_end(result[0]);
  UniqueFd write_end(result[1]);

  const std::array roles{Role::kInitiator, Role::kTarget};
  std::array<pid_t, 2> pids{};
  std::vector<pid_t> spinning;
  for (size_t i = 0; i < roles.size(); ++i) {
    const int core = core_of(roles[i]);
    if (spinners) {
      spinning.push_back(start([&write_end, core] {
        write_end.reset();  // or the result would not end before the spinner does
        pin(core);
        for (std::atomic<uint64_t> n = 0;; n.fetch_add(1, std::memory_order_relaxed)) {}
      }));
    }
    pids[i] = start([&, i, core] {
      pin(core);
      control[1 - i].reset();
      const std::vector<double> values = end(roles[i], Control(control[i].get()));
      if (roles[i] == Role::kInitiator) {
        write_all(write_end.get(), values.data(), values.size() * sizeof(double), "result");
      }
    });
  }
  control[0].reset();
  control[1].reset();
  write_end.reset();

  Measured measured;
  for (double value = 0; read_all(read_end.get(), &value, sizeof value);) {
    measured.values.push_back(value);
  }
  bool good = true;
  for (const pid_t pid : pids) {
    int status = 0;
    rusage usage{};
    ::wait4(pid, &status, 0, &usage);
    good = good && WIFEXITED(status) && WEXITSTATUS(status) == 0;
    measured.cpu_seconds += cpu_of(usage);
  }
  for (const pid_t pid : spinning) {
    ::kill(pid, SIGKILL);
    ::waitpid(pid, nullptr, 0);
  }
  if (!good) {
    measured.values.clear();
    std::fprintf(stderr, "bench: an end failed; this round does not count\n");
  }
  return measured;
}

}  // namespace verbena::bench
