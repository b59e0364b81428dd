// SPDX-License-Identifier: Apache-2.0
#include "device/standard_error.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <functional>
#include <string>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/unique_fd.h"

namespace verbena::device {
namespace {

constexpr std::string_view kLine = "a line\n";

// Runs in a child, whose descriptor 2 may become anything; gives its exit status. A signal, or a
// wait without end, is a failure.
int in_own_process(const std::function<bool()>& part) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(20);
    ::_exit(part() ? 0 : 1);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

void become_error(int fd) { (void)::dup2(fd, STDERR_FILENO); }

struct Pipe {
  Pipe() {
    std::array<int, 2> ends{};
    if (::pipe2(ends.data(), O_CLOEXEC) == 0) {
      out.reset(ends[0]);
      in.reset(ends[1]);
    }
  }
  [[nodiscard]] bool has_the_line() const {
    std::array<char, 64> bytes{};
    (void)::fcntl(out.get(), F_SETFL, O_NONBLOCK);
    const ssize_t got = ::read(out.get(), bytes.data(), bytes.size());
    return got > 0 && std::string_view(bytes.data(), static_cast<size_t>(got)) == kLine;
  }
  UniqueFd out;
  UniqueFd in;
};

TEST(StandardError, IsWrittenTo) {
  EXPECT_EQ(in_own_process([] {
              const Pipe pipe;
              become_error(pipe.in.get());
              errno = 5;
              return StandardError().write(kLine) && pipe.has_the_line() && errno == 5;
            }),
            0);
  EXPECT_EQ(in_own_process([] {
              const UniqueFd file(::memfd_create("log", MFD_CLOEXEC));
              become_error(file.get());
              return StandardError().write(kLine) && StandardError().write(kLine) &&
                     ::lseek(file.get(), 0, SEEK_END) == 2 * ssize_t{kLine.size()};
            }),
            0);
  EXPECT_EQ(in_own_process([] {
              std::array<int, 2> ends{};
              if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) != 0) return false;
              become_error(ends[0]);
              return StandardError().write(kLine);
            }),
            0);
}

TEST(StandardError, ThatIsSomethingElseByNowIsLeftAlone) {
  EXPECT_EQ(in_own_process([] {
              const Pipe before;
              const Pipe after;
              become_error(before.in.get());
              const StandardError error;
              become_error(after.in.get());
              if (error.write(kLine) || after.has_the_line()) return false;
              ::close(STDERR_FILENO);
              return !error.write(kLine);
            }),
            0);
  EXPECT_EQ(in_own_process([] {
              ::close(STDERR_FILENO);
              const StandardError error;
              const Pipe pipe;  // has descriptor 2 now, in place of the one that was closed
              return !error.write(kLine);
            }),
            0);
}

TEST(StandardError, IsNoPlaceForWords) {
  // Data, in the middle of which somebody is.
  EXPECT_EQ(in_own_process([] {
              const UniqueFd file(::memfd_create("data", MFD_CLOEXEC));
              if (::ftruncate(file.get(), 4096) != 0) return false;
              become_error(file.get());
              return !StandardError().write(kLine);
            }),
            0);
  EXPECT_EQ(in_own_process([] {
              const Pipe pipe;
              become_error(pipe.out.get());  // for reading
              return !StandardError().write(kLine);
            }),
            0);
  // A connection to who knows whom, as inetd gives it.
  EXPECT_EQ(in_own_process([] {
              const UniqueFd socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
              become_error(socket.get());
              return !StandardError().write(kLine);
            }),
            0);
}

TEST(StandardError, NeverWaitsAndRaisesNoSignal) {
  EXPECT_EQ(in_own_process([] {
              const Pipe full;
              become_error(full.in.get());
              (void)::fcntl(full.in.get(), F_SETFL, O_NONBLOCK);
              const std::array<char, 4096> page{};
              while (::write(full.in.get(), page.data(), page.size()) > 0) {}
              (void)::fcntl(full.in.get(), F_SETFL, 0);
              return !StandardError().write(kLine);
            }),
            0);
  EXPECT_EQ(in_own_process([] {
              Pipe gone;
              become_error(gone.in.get());
              gone.out.reset();
              if (StandardError().write(kLine)) return false;
              sigset_t pending;
              ::sigpending(&pending);
              return sigismember(&pending, SIGPIPE) == 0;
            }),
            0);
#if !defined(__SANITIZE_THREAD__)  // where the process is ended all the same
  EXPECT_EQ(in_own_process([] {
              const UniqueFd file(::memfd_create("log", MFD_CLOEXEC));
              become_error(file.get());
              const rlimit none{0, RLIM_INFINITY};
              return ::setrlimit(RLIMIT_FSIZE, &none) == 0 && !StandardError().write(kLine);
            }),
            0);
#endif
}

}  // namespace
}  // namespace verbena::device
