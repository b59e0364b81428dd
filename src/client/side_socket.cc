// SPDX-License-Identifier: Apache-2.0
#include "client/side_socket.h"

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

namespace verbena::client {

bool SideSocket::connect(const std::string& host, uint16_t port) {
  close();
  why_.clear();
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  const int unknown = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (unknown != 0) {
    why_ = gai_strerror(unknown);
    return false;
  }
  const addrinfo* to = found;
  for (size_t i = 0; i < turn_; ++i) to = to->ai_next == nullptr ? found : to->ai_next;
  std::array<char, NI_MAXHOST> numeric{};
  getnameinfo(to->ai_addr, to->ai_addrlen, numeric.data(), numeric.size(), nullptr, 0,
              NI_NUMERICHOST);
  peer_ = numeric.data();
  fd_.reset(socket(to->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int yes = 1;
  bool begun = false;
  if (fd_.valid()) {
    setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    begun = ::connect(fd_.get(), to->ai_addr, to->ai_addrlen) == 0 || errno == EINPROGRESS;
  }
  if (!begun) why_ = std::strerror(errno);
  freeaddrinfo(found);
  if (!begun) {
    close();
    ++turn_;
  }
  connecting_ = begun;
  return begun;
}

void SideSocket::close() {
  fd_.reset();
  connecting_ = closing_ = false;
  unsent_.clear();
}

void SideSocket::send(std::span<const uint8_t> bytes) {
  if (!fd_.valid()) return;
  unsent_.insert(unsent_.end(), bytes.begin(), bytes.end());
  static_cast<void>(flush());
}

void SideSocket::close_after_sending() {
  if (unsent_.empty()) return close();
  closing_ = true;
}

// False: it is broken.
bool SideSocket::flush() {
  while (!connecting_ && !unsent_.empty()) {
    const ssize_t sent = ::send(fd_.get(), unsent_.data(), unsent_.size(), MSG_NOSIGNAL);
    if (sent < 0) return errno == EAGAIN || errno == EINTR;
    unsent_.erase(unsent_.begin(), unsent_.begin() + sent);
  }
  if (closing_ && unsent_.empty()) close();
  return true;
}

SideSocket::Event SideSocket::next() {
  if (!fd_.valid()) return Event::kNothing;
  const auto broken = [this](int error) {
    const bool wanted = closing_;
    why_ = error == 0 ? "" : std::strerror(error);
    close();
    return wanted ? Event::kNothing : Event::kClosed;
  };
  if (connecting_) {
    int error = 0;
    socklen_t length = sizeof error;
    getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &length);
    if (error != 0) {
      ++turn_;
      return broken(error);
    }
    sockaddr_storage peer{};
    socklen_t bytes = sizeof peer;
    if (getpeername(fd_.get(), reinterpret_cast<sockaddr*>(&peer), &bytes) != 0) {
      return Event::kNothing;  // not yet
    }
    connecting_ = false;
    return Event::kConnected;
  }
  if (!flush()) return broken(errno);
  if (!fd_.valid() || closing_) return Event::kNothing;
  const ssize_t got = recv(fd_.get(), received_.data(), received_.size(), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return Event::kNothing;
  if (got <= 0) return broken(got < 0 ? errno : 0);
  bytes_ = std::span(received_).first(static_cast<size_t>(got));
  return Event::kBytes;
}

}  // namespace verbena::client
