// SPDX-License-Identifier: Apache-2.0
#include "fabric/ofi_sockets.h"

#include <cerrno>
#include <vector>

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/unique_fd.h"

namespace verbena::fabric {
namespace {

using NameBytes = std::vector<uint8_t>;
using NameOfSocket = int (*)(int, sockaddr*, socklen_t*);

NameBytes name_of(const UniqueFd& fd, NameOfSocket call = getsockname) {
  NameBytes name(sizeof(sockaddr_in));
  socklen_t bytes = sizeof(sockaddr_in);
  EXPECT_EQ(call(fd.get(), reinterpret_cast<sockaddr*>(name.data()), &bytes), 0);
  return name;
}

UniqueFd listener() {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in at{};
  at.sin_family = AF_INET;
  at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(bind(fd.get(), reinterpret_cast<const sockaddr*>(&at), sizeof at), 0);
  EXPECT_EQ(listen(fd.get(), 4), 0);
  return fd;
}

UniqueFd connected_to(const UniqueFd& listener) {
  UniqueFd fd(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const NameBytes to = name_of(listener);
  EXPECT_EQ(connect(fd.get(), reinterpret_cast<const sockaddr*>(to.data()), sizeof(sockaddr_in)),
            0);
  return fd;
}

bool is_shut(const UniqueFd& fd) {
  return send(fd.get(), "x", 1, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno == EPIPE;
}

// In this test our endpoint and the peer's are of one process.
struct Pair {
  UniqueFd made;
  UniqueFd accepted;
  explicit Pair(const UniqueFd& at)
      : made(connected_to(at)), accepted(accept(at.get(), nullptr, nullptr)) {}
};

TEST(OfiSockets, ThoseOfTheEndpointAreShutDown) {
  const UniqueFd own = listener();
  const Pair peers(own);
  const UniqueFd elsewhere = listener();
  const Pair others(elsewhere);
  shut_down_sockets(name_of(own), name_of(peers.made));
  EXPECT_TRUE(is_shut(peers.accepted));
  EXPECT_FALSE(is_shut(others.accepted));
  EXPECT_FALSE(is_shut(others.made));
}

TEST(OfiSockets, ThoseThatWereMadeToThePeerAreShutDown) {
  const UniqueFd own = listener();
  const UniqueFd peer = listener();
  const Pair both(peer);
  shut_down_sockets(name_of(own), name_of(peer));
  EXPECT_TRUE(is_shut(both.made));
}

// The peer's address is its own word: here, where another client of ours has connected from.
TEST(OfiSockets, ThoseOfOthersAreNot) {
  const UniqueFd own = listener();
  const UniqueFd service = listener();
  const Pair victim(service);
  shut_down_sockets(name_of(own), name_of(victim.made));
  EXPECT_FALSE(is_shut(victim.accepted));
  EXPECT_FALSE(is_shut(victim.made));
}

}  // namespace
}  // namespace verbena::fabric
