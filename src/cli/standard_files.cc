// SPDX-License-Identifier: Apache-2.0
#include "cli/standard_files.h"

#include <cstdlib>
#include <initializer_list>

#include <fcntl.h>
#include <unistd.h>

namespace verbena::cli {

void guard_standard_files() {
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    if (::fcntl(fd, F_GETFD) >= 0) continue;
    // The lowest number that is free is this one. What is not to be read cannot be, and so on.
    const int way = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY;
    if (::open("/dev/null", way | O_CLOEXEC) != fd) ::_exit(EXIT_FAILURE);
  }
}

}  // namespace verbena::cli
