// SPDX-License-Identifier: Apache-2.0
#include "device/epoll_sleep.h"

#include <array>
#include <cerrno>
#include <ctime>

#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "support/forbid.h"

namespace verbena::device {
namespace {

[[nodiscard]] Time now() {
  timespec time{};
  ::clock_gettime(CLOCK_MONOTONIC, &time);
  return Time{time.tv_sec} * kSecond + time.tv_nsec;
}

// The number of the step that went wrong, or 0.
[[nodiscard]] int sleeps_and_wakes() {
  const UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  const UniqueFd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  epoll_event watch{.events = EPOLLIN, .data = {.fd = event.get()}};
  if (::epoll_ctl(epoll.get(), EPOLL_CTL_ADD, event.get(), &watch) != 0) return 1;
  EpollSleep sleep;
  std::array<epoll_event, 2> room{};
  // Not shorter than asked, though it is less than a millisecond, or not a whole number of them.
  for (const Duration timeout : {Duration{1}, 300 * kMicrosecond, 2 * kMillisecond + 1}) {
    const Time begin = now();
    if (!sleep.wait(epoll.get(), room, timeout).empty()) return 2;
    if (now() - begin < timeout) return 3;
  }
  const uint64_t one = 1;
  if (::write(event.get(), &one, sizeof one) != sizeof one) return 4;
  for (const Duration timeout : {Duration{0}, kSecond, Duration{kNever}}) {
    const auto ready = sleep.wait(epoll.get(), room, timeout);
    if (ready.size() != 1 || ready[0].data.fd != event.get()) return 5;
  }
  return 0;
}

TEST(EpollSleep, SleepsAndWakes) { EXPECT_EQ(sleeps_and_wakes(), 0); }

TEST(EpollSleep, SleepsWhereThePreciseCallIsMissingOrForbidden) {
  for (const int error : {ENOSYS, EPERM}) {
    SCOPED_TRACE(error);
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      ::_exit(testing::forbid(SYS_epoll_pwait2, error) ? sleeps_and_wakes()
                                                       : testing::kCannotForbid);
    }
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFEXITED(status));
    if (WEXITSTATUS(status) == testing::kCannotForbid) GTEST_SKIP() << "no seccomp filters here";
    EXPECT_EQ(WEXITSTATUS(status), 0);
  }
}

}  // namespace
}  // namespace verbena::device
