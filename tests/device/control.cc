// SPDX-License-Identifier: Apache-2.0
#include "control.h"

#include <array>

#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "budget.h"

namespace verbena::device::testing {

std::pair<Control, Control> Control::make() {
  std::array<int, 2> fds{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()) != 0) {
    throw Broken("no socket pair");
  }
  const timeval patience{kPatience.count(), 0};
  for (const int fd : fds) {
    (void)::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
  }
  return {Control(UniqueFd(fds[0])), Control(UniqueFd(fds[1]))};
}

void Control::tell_bytes(const void* data, size_t bytes) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t sent = ::send(fd_.get(), at, bytes, MSG_NOSIGNAL);
    if (sent <= 0) throw Broken("the other end does not listen");
    at += sent;
    bytes -= static_cast<size_t>(sent);
  }
}

void Control::hear_bytes(void* data, size_t bytes) {
  auto* at = static_cast<char*>(data);
  const auto end = std::chrono::steady_clock::now() + kPatience;
  while (bytes > 0) {
    pollfd entry{fd_.get(), POLLIN, 0};
    if (::poll(&entry, 1, 200) <= 0) {
      if (std::chrono::steady_clock::now() > end) throw Broken("the other end says nothing");
      continue;
    }
    const ssize_t got = ::recv(fd_.get(), at, bytes, 0);
    if (got <= 0) throw Broken("the other end is gone");
    at += got;
    bytes -= static_cast<size_t>(got);
  }
}

void Control::barrier() {
  tell('.');
  (void)hear<char>();
}

bool Control::waiting() const {
  pollfd entry{fd_.get(), POLLIN, 0};
  return ::poll(&entry, 1, 0) > 0;
}

}  // namespace verbena::device::testing
