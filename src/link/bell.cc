// SPDX-License-Identifier: Apache-2.0
#include "link/bell.h"

#include <array>
#include <cstdint>
#include <cstdio>
#include <string_view>

#include <fcntl.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace verbena::link {

UniqueFd make_bell() { return UniqueFd(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)); }

bool is_bell(int fd) {
  const int flags = fd < 0 ? -1 : ::fcntl(fd, F_GETFL);
  if (flags < 0 || (flags & O_NONBLOCK) == 0) return false;
  std::array<char, 32> path{};
  (void)std::snprintf(path.data(), path.size(), "/proc/self/fd/%d", fd);
  std::array<char, 32> target{};
  const ssize_t length = ::readlink(path.data(), target.data(), target.size());
  return length > 0 &&
         std::string_view(target.data(), static_cast<size_t>(length)) == "anon_inode:[eventfd]";
}

void ring(int bell) {
  const uint64_t one = 1;
  (void)!::write(bell, &one, sizeof one);
}

void silence(int bell) {
  uint64_t count = 0;
  (void)!::read(bell, &count, sizeof count);
}

}  // namespace verbena::link
