// SPDX-License-Identifier: Apache-2.0
// How many descriptors this process has, without the device's connections to other processes of the
// host: those come and go with them.
#pragma once

#include <cerrno>
#include <cstdlib>

#include <dirent.h>
#include <sys/socket.h>

namespace verbena {

inline size_t open_descriptors() {
  size_t count = 0;
  DIR* const all = ::opendir("/proc/self/fd");
  if (all == nullptr) return 0;
  while (const dirent* const one = ::readdir(all)) {
    int type = 0;
    socklen_t size = sizeof type;
    const int error =
        ::getsockopt(std::atoi(one->d_name), SOL_SOCKET, SO_TYPE, &type, &size) == 0 ? 0 : errno;
    if (error != EBADF && type != SOCK_SEQPACKET) ++count;
  }
  ::closedir(all);
  return count;
}

}  // namespace verbena
