// SPDX-License-Identifier: Apache-2.0
// Room for a file on its file system.
#pragma once

#include <cerrno>
#include <cstdint>

#include <fcntl.h>

namespace verbena::medium {

[[nodiscard]] inline bool no_room(int error) {
  return error == ENOSPC || error == EDQUOT || error == EFBIG;
}

// All of its first `bytes`, so that writing them needs no more. errno of it, 0 if it went well.
[[nodiscard]] inline int allocate_all(int fd, uint64_t bytes) {
  while (::fallocate(fd, 0, 0, static_cast<off_t>(bytes)) != 0) {
    if (errno != EINTR) return errno;
  }
  return 0;
}

}  // namespace verbena::medium
