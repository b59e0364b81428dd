// SPDX-License-Identifier: Apache-2.0
#include "serve/process.h"

#include <array>
#include <csignal>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/check.h"

namespace verbena::serve {
namespace {

constexpr int kPatienceMs = 120'000;

}  // namespace

Process::Process(const std::vector<std::string>& command) {
  std::array<int, 2> in{};
  std::array<int, 2> out{};
  VERBENA_CHECK(pipe2(in.data(), O_CLOEXEC) == 0 && pipe2(out.data(), O_CLOEXEC) == 0);
  std::vector<char*> arguments;
  for (const std::string& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  const pid_t parent = getpid();
  pid_ = fork();
  VERBENA_CHECK(pid_ >= 0);
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    dup2(in[0], STDIN_FILENO);
    dup2(out[1], STDOUT_FILENO);
    execv(arguments[0], arguments.data());
    _exit(127);
  }
  ::close(in[0]);
  ::close(out[1]);
  in_.reset(in[1]);
  out_.reset(out[0]);
}

Process::Process(Process&& other) noexcept
    : pid_(std::exchange(other.pid_, 0)),
      in_(std::move(other.in_)),
      out_(std::move(other.out_)),
      unread_(std::move(other.unread_)) {}

Process& Process::operator=(Process&& other) noexcept {
  if (this == &other) return *this;
  end();
  pid_ = std::exchange(other.pid_, 0);
  in_ = std::move(other.in_);
  out_ = std::move(other.out_);
  unread_ = std::move(other.unread_);
  return *this;
}

Process::~Process() { end(); }

void Process::end() {
  if (pid_ == 0) return;
  ::kill(pid_, SIGKILL);
  static_cast<void>(wait());
}

std::optional<std::string> Process::line() {
  for (;;) {
    if (const size_t end = unread_.find('\n'); end != std::string::npos) {
      std::string line = unread_.substr(0, end);
      unread_.erase(0, end + 1);
      return line;
    }
    pollfd fd{out_.get(), POLLIN, 0};
    std::array<char, 4096> bytes;
    if (::poll(&fd, 1, kPatienceMs) <= 0) return std::nullopt;
    const ssize_t got = read(out_.get(), bytes.data(), bytes.size());
    if (got <= 0) return std::nullopt;
    unread_.append(bytes.data(), static_cast<size_t>(got));
  }
}

void Process::say(const std::string& text) const {
  VERBENA_CHECK(write(in_.get(), text.data(), text.size()) == static_cast<ssize_t>(text.size()));
}

void Process::signal(int number) const {
  if (pid_ == 0) return;
  ::kill(pid_, number);
  if (number == SIGSTOP) ::waitpid(pid_, nullptr, WUNTRACED);  // until all its threads stand still
}

int Process::wait() {
  in_.reset();
  int status = 0;
  const bool waited = pid_ != 0 && waitpid(pid_, &status, 0) == pid_;
  pid_ = 0;
  if (!waited) return -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace verbena::serve
