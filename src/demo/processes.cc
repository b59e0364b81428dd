// SPDX-License-Identifier: Apache-2.0
#include "demo/processes.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace verbena::demo {
namespace {

// Where the target leaves its last words: a page that both see.
class LastWords {
 public:
  LastWords() {
    void* const page =
        ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED) throw Problem("no memory");
    text_ = static_cast<char*>(page);
  }
  ~LastWords() { ::munmap(text_, kBytes); }
  LastWords(const LastWords&) = delete;
  LastWords& operator=(const LastWords&) = delete;

  void say(const char* what) { (void)std::snprintf(text_, kBytes, "%s", what); }
  [[nodiscard]] std::string text() const { return text_; }

 private:
  static constexpr size_t kBytes = 4096;
  char* text_;
};

[[noreturn]] void be_target(const Role& target, Line& line, pid_t parent, LastWords& words) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  ::prctl(PR_SET_NAME, "verbena-target");
  if (::getppid() != parent) ::_exit(1);  // it ended before we asked to be told
  int status = 0;
  try {
    target(line);
  } catch (const OtherGone&) {
    status = 1;
  } catch (const std::exception& problem) {
    words.say(problem.what());
    status = 1;
  }
  ::_exit(status);
}

// Why a target that is gone went; empty: all was well.
[[nodiscard]] std::string why_gone(pid_t pid, const LastWords& words) {
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {}
  if (WIFSIGNALED(status)) {
    return std::string("the target process was ended by a signal: ") +
           ::strsignal(WTERMSIG(status));
  }
  if (!words.text().empty()) return "the target process: " + words.text();
  return WEXITSTATUS(status) == 0 ? "" : "the target process failed";
}

}  // namespace

std::string run_processes(const Role& target, const Role& initiator) {
  LastWords words;
  auto [ours, theirs] = Line::make();
  std::fflush(nullptr);
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return std::string("cannot start the target process: ") + std::strerror(errno);
  if (pid == 0) {
    ours.close();
    be_target(target, theirs, parent, words);
  }
  theirs.close();
  std::string problem;
  bool other_gone = false;
  try {
    initiator(ours);
  } catch (const OtherGone& gone) {
    problem = gone.what();
    other_gone = true;
  } catch (const std::exception& other) {
    problem = other.what();
  }
  ours.close();
  // Stuck, perhaps, where it does not see that we have gone.
  if (!problem.empty() && !other_gone) ::kill(pid, SIGKILL);
  std::string theirs_problem = why_gone(pid, words);
  if (problem.empty() || (other_gone && !theirs_problem.empty())) return theirs_problem;
  return problem;
}

}  // namespace verbena::demo
