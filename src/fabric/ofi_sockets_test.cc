// SPDX-License-Identifier: Apache-2.0
#include "fabric/ofi_sockets.h"

#include <cerrno>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

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

// There is none left to look for them with.
TEST(OfiSockets, WithoutDescriptors) {
  const UniqueFd own = listener();
  const Pair peers(own);
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const UniqueFd highest(dup(0));
  const rlimit low{.rlim_cur = static_cast<rlim_t>(highest.get()) + 1, .rlim_max = before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &low), 0);
  shut_down_sockets(name_of(own), name_of(peers.made));
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_TRUE(is_shut(peers.accepted));
}

bool is_open(const UniqueFd& fd) { return fcntl(fd.get(), F_GETFD) >= 0; }

TEST(OfiSockets, UnansweredOnesAreClosed) {
  const UniqueFd own = listener();
  const Pair answered(own);
  const Pair unanswered(own);
  const Pair closed(own);
  const UniqueFd elsewhere = listener();
  const Pair others(elsewhere);
  ASSERT_EQ(send(answered.accepted.get(), "x", 1, MSG_NOSIGNAL), 1);
  const UnansweredSockets found(name_of(own));
  // Closed by libfabric: another one has its number now.
  ASSERT_GE(dup2(others.accepted.get(), closed.accepted.get()), 0);
  found.close_forgotten();
  EXPECT_TRUE(is_open(answered.accepted));
  EXPECT_FALSE(is_open(unanswered.accepted));
  EXPECT_TRUE(is_open(closed.accepted));
  EXPECT_TRUE(is_open(others.accepted));
  EXPECT_TRUE(is_open(own));
}

}  // namespace
}  // namespace verbena::fabric
