// SPDX-License-Identifier: Apache-2.0
// For services that tests make up: a socket that listens on loopback, on a port that was free.
#pragma once

#include <cstdint>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/unique_fd.h"

namespace verbena::backend {

struct ListeningSocket {
  UniqueFd fd;
  uint16_t port = 0;
};

inline ListeningSocket listen_on_loopback() {
  ListeningSocket made{.fd = UniqueFd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0))};
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(bind(made.fd.get(), any, length), 0);
  EXPECT_EQ(listen(made.fd.get(), 64), 0);
  EXPECT_EQ(getsockname(made.fd.get(), any, &length), 0);
  made.port = ntohs(address.sin_port);
  return made;
}

}  // namespace verbena::backend
