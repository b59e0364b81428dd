// SPDX-License-Identifier: Apache-2.0
#include "demo/line.h"

#include <array>

#include <poll.h>
#include <sys/socket.h>

namespace verbena::demo {

std::pair<Line, Line> Line::make() {
  std::array<int, 2> fds{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()) != 0) {
    throw Problem("no descriptors left for a socket pair");
  }
  const timeval patience{kPatience.count(), 0};
  for (const int fd : fds) {
    (void)::setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    (void)::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  }
  return {Line(UniqueFd(fds[0])), Line(UniqueFd(fds[1]))};
}

void Line::tell_bytes(const void* data, size_t bytes) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    const ssize_t sent = ::send(fd_.get(), at, bytes, MSG_NOSIGNAL);
    if (sent <= 0) throw OtherGone();
    at += sent;
    bytes -= static_cast<size_t>(sent);
  }
}

void Line::hear_bytes(void* data, size_t bytes) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    const ssize_t got = ::recv(fd_.get(), at, bytes, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && errno == EAGAIN) throw Problem("the other process does not answer");
    if (got <= 0) throw OtherGone();
    at += got;
    bytes -= static_cast<size_t>(got);
  }
}

void Line::meet() {
  tell('.');
  (void)hear<char>();
}

bool Line::waiting() const {
  pollfd entry{fd_.get(), POLLIN, 0};
  return ::poll(&entry, 1, 0) > 0;
}

void Line::check_other() const {
  pollfd entry{fd_.get(), POLLRDHUP, 0};
  if (::poll(&entry, 1, 0) > 0) throw OtherGone();
}

}  // namespace verbena::demo
