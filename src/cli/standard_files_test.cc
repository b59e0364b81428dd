// SPDX-License-Identifier: Apache-2.0
#include "cli/standard_files.h"

#include <cerrno>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

namespace verbena::cli {
namespace {

// In a process of its own, which has lost its own.
[[nodiscard]] int after_closing_all() {
  for (int fd = 0; fd < 3; ++fd) ::close(fd);
  guard_standard_files();
  char byte = 'x';
  if (::read(0, &byte, 1) != -1 || errno != EBADF) return 1;
  if (::write(1, &byte, 1) != -1 || errno != EBADF) return 2;
  if (::write(2, &byte, 1) != -1 || errno != EBADF) return 3;
  if (::open("/dev/null", O_RDWR | O_CLOEXEC) < 3) return 4;
  if (::fcntl(1, F_GETFD) != FD_CLOEXEC) return 5;
  return 0;
}

TEST(StandardFilesDeathTest, AreNeverAnotherFile) {
  EXPECT_EXIT(::_exit(after_closing_all()), testing::ExitedWithCode(0), "");
}

TEST(StandardFiles, ThatAreOpenStayAsTheyAre) {
  const int flags = ::fcntl(2, F_GETFL);
  guard_standard_files();
  EXPECT_EQ(::fcntl(2, F_GETFL), flags);
}

}  // namespace
}  // namespace verbena::cli
