// SPDX-License-Identifier: Apache-2.0
// For tests: rsockets of this process, over loopback. Every wait ends.
#pragma once

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <rdma/rsocket.h>
#include <sys/socket.h>

namespace verbena::rsocket {

inline constexpr int kTestPatienceMs = 20'000;

#define EXPECT_FAILS(call, error) \
  do {                            \
    errno = 0;                    \
    EXPECT_EQ(call, -1);          \
    EXPECT_EQ(errno, error);      \
  } while (false)

[[nodiscard]] inline sockaddr_in loopback(uint16_t port = 0) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return address;
}
[[nodiscard]] inline const sockaddr* raw(const sockaddr_in& address) {
  return reinterpret_cast<const sockaddr*>(&address);
}
[[nodiscard]] inline sockaddr* raw(sockaddr_in& address) {
  return reinterpret_cast<sockaddr*>(&address);
}

[[nodiscard]] inline short poll_for(int socket, short events, int patience_ms = kTestPatienceMs) {
  pollfd one{.fd = socket, .events = events, .revents = 0};
  return rpoll(&one, 1, patience_ms) > 0 ? one.revents : short{0};
}

class Listener {
 public:
  Listener() : socket_(::rsocket(AF_INET, SOCK_STREAM, 0)) {
    EXPECT_GE(socket_, 0) << std::strerror(errno);
    const sockaddr_in any = loopback();
    EXPECT_EQ(rbind(socket_, raw(any), sizeof any), 0) << std::strerror(errno);
    socklen_t length = sizeof address_;
    EXPECT_EQ(rlisten(socket_, 16), 0) << std::strerror(errno);
    EXPECT_EQ(rgetsockname(socket_, raw(address_), &length), 0);
  }
  ~Listener() { EXPECT_EQ(rclose(socket_), 0); }

  [[nodiscard]] int socket() const { return socket_; }
  [[nodiscard]] const sockaddr_in& address() const { return address_; }

 private:
  int socket_;
  sockaddr_in address_{};
};

// Both ends of a connection.
class Streams {
 public:
  Streams() {
    active = ::rsocket(AF_INET, SOCK_STREAM, 0);
    EXPECT_EQ(rfcntl(active, F_SETFL, O_NONBLOCK), 0);
    EXPECT_FAILS(rconnect(active, raw(listener_.address()), sizeof(sockaddr_in)), EINPROGRESS);
    passive = raccept(listener_.socket(), nullptr, nullptr);
    EXPECT_GE(passive, 0) << std::strerror(errno);
    EXPECT_EQ(poll_for(active, POLLOUT), POLLOUT);
    EXPECT_EQ(poll_for(passive, POLLOUT), POLLOUT);
    EXPECT_EQ(rfcntl(active, F_SETFL, 0), 0);
  }
  ~Streams() {
    for (const int socket : {active, passive}) {
      if (socket < 0) continue;
      EXPECT_EQ(rclose(socket), 0);
    }
  }
  void close_active() { EXPECT_EQ(rclose(std::exchange(active, -1)), 0); }
  void close_passive() { EXPECT_EQ(rclose(std::exchange(passive, -1)), 0); }

  int active = -1;
  int passive = -1;

 private:
  Listener listener_;
};

[[nodiscard]] inline std::string read_some(int socket, size_t most = 4096, int flags = 0) {
  std::string got(most, '\0');
  const ssize_t length = rrecv(socket, got.data(), most, flags);
  EXPECT_GE(length, 0) << std::strerror(errno);
  got.resize(static_cast<size_t>(std::max<ssize_t>(length, 0)));
  return got;
}

inline void write_all(int socket, std::string_view text) {
  EXPECT_EQ(rsend(socket, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()))
      << std::strerror(errno);
}

}  // namespace verbena::rsocket
