// SPDX-License-Identifier: Apache-2.0
// Streams as programs use them.
#include <array>
#include <atomic>
#include <chrono>
#include <climits>
#include <csignal>
#include <thread>

#include <netinet/tcp.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rsocket/test_streams.h"
#include "support/descriptors.h"

namespace verbena::rsocket {
namespace {

using namespace std::chrono_literals;

// A byte for each place, so that what is lost, doubled or moved is seen.
[[nodiscard]] char byte_at(size_t place) { return static_cast<char>(place * 131 + (place >> 12)); }

TEST(RsocketStream, CarriesAWordBothWays) {
  const Streams pair;
  write_all(pair.active, "there");
  EXPECT_EQ(read_some(pair.passive), "there");
  write_all(pair.passive, "and back");
  EXPECT_EQ(read_some(pair.active, 3), "and");
  EXPECT_EQ(read_some(pair.active), " back");
}

TEST(RsocketStream, NamesAreThoseOfTheEnds) {
  const Streams pair;
  sockaddr_in here{};
  sockaddr_in there{};
  socklen_t length = sizeof here;
  ASSERT_EQ(rgetsockname(pair.active, raw(here), &length), 0);
  ASSERT_EQ(rgetpeername(pair.passive, raw(there), &length), 0);
  EXPECT_EQ(std::memcmp(&here, &there, sizeof here), 0);
  EXPECT_EQ(here.sin_family, AF_INET);
  EXPECT_EQ(here.sin_addr.s_addr, htonl(INADDR_LOOPBACK));
  EXPECT_NE(here.sin_port, 0);
}

TEST(RsocketStream, ManyBytesBothWaysAtOnce) {
  constexpr size_t kTotal = 8 << 20;
  const Streams pair;
  const auto write = [](int socket) {
    std::string chunk(100'000, '\0');
    for (size_t sent = 0; sent < kTotal;) {
      const size_t now = std::min(chunk.size(), kTotal - sent);
      for (size_t i = 0; i < now; ++i) chunk[i] = byte_at(sent + i);
      ASSERT_EQ(rwrite(socket, chunk.data(), now), static_cast<ssize_t>(now));
      sent += now;
    }
  };
  const auto read = [](int socket) {
    std::string chunk(77'777, '\0');
    for (size_t got = 0; got < kTotal;) {
      const ssize_t now = rread(socket, chunk.data(), chunk.size());
      ASSERT_GT(now, 0) << std::strerror(errno);
      for (size_t i = 0; i < static_cast<size_t>(now); ++i) {
        ASSERT_EQ(chunk[i], byte_at(got + i)) << got + i;
      }
      got += static_cast<size_t>(now);
    }
  };
  // Two threads in each socket.
  std::array<std::thread, 4> threads{
      std::thread(write, pair.active), std::thread(read, pair.passive),
      std::thread(write, pair.passive), std::thread(read, pair.active)};
  for (std::thread& thread : threads) thread.join();
}

TEST(RsocketStream, PiecesAreGatheredAndScattered) {
  const Streams pair;
  std::array<char, 3> one{'a', 'b', 'c'};
  std::array<char, 2> two{'d', 'e'};
  const std::array<iovec, 3> out{{{one.data(), 3}, {nullptr, 0}, {two.data(), 2}}};
  EXPECT_EQ(rwritev(pair.active, out.data(), 3), 5);
  std::array<char, 1> first{};
  std::array<char, 8> rest{};
  const std::array<iovec, 2> in{{{first.data(), 1}, {rest.data(), 8}}};
  EXPECT_EQ(poll_for(pair.passive, POLLIN), POLLIN);
  EXPECT_EQ(rreadv(pair.passive, in.data(), 2), 5);
  EXPECT_EQ(first[0], 'a');
  EXPECT_STREQ(rest.data(), "bcde");
}

TEST(RsocketStream, ListsOfPiecesThatCannotBeAreRefused) {
  const Streams pair;
  std::array<char, 2> text{'a', 'b'};
  std::array<iovec, 2> pieces{{{text.data(), 2}, {text.data(), SIZE_MAX}}};
  EXPECT_FAILS(rwritev(pair.active, pieces.data(), -1), EINVAL);
  EXPECT_FAILS(rreadv(pair.active, pieces.data(), -1), EINVAL);
  EXPECT_FAILS(rwritev(pair.active, pieces.data(), 2), EINVAL);
  EXPECT_FAILS(rreadv(pair.active, pieces.data(), 2), EINVAL);
  msghdr message{};
  message.msg_iov = pieces.data();
  message.msg_iovlen = IOV_MAX + 1;
  EXPECT_FAILS(rsendmsg(pair.active, &message, 0), EMSGSIZE);
  EXPECT_FAILS(rrecvmsg(pair.active, &message, 0), EMSGSIZE);
  write_all(pair.active, "still here");
  EXPECT_EQ(read_some(pair.passive), "still here");
}

TEST(RsocketStream, PeekLeavesItAndWaitAllWaits) {
  const Streams pair;
  write_all(pair.active, "one");
  EXPECT_EQ(read_some(pair.passive, 100, MSG_PEEK), "one");
  std::thread later([&] {
    std::this_thread::sleep_for(20ms);
    write_all(pair.active, "two");
  });
  EXPECT_EQ(read_some(pair.passive, 6, MSG_WAITALL), "onetwo");
  later.join();
}

TEST(RsocketStream, DataAreNeitherErrorsNorOutOfBand) {
  const Streams pair;
  write_all(pair.active, "data");
  ASSERT_EQ(poll_for(pair.passive, POLLIN), POLLIN);
  std::array<char, 16> room{};
  iovec piece{room.data(), room.size()};
  msghdr message{};
  message.msg_iov = &piece;
  message.msg_iovlen = 1;
  EXPECT_FAILS(rrecvmsg(pair.passive, &message, MSG_ERRQUEUE), EAGAIN);
  EXPECT_FAILS(rrecv(pair.passive, room.data(), room.size(), MSG_ERRQUEUE), EAGAIN);
  EXPECT_FAILS(rrecv(pair.passive, room.data(), room.size(), MSG_OOB), EINVAL);
  EXPECT_EQ(read_some(pair.passive), "data");
}

TEST(RsocketStream, DoesNotWaitWhenToldNotTo) {
  const Streams pair;
  char byte = 0;
  EXPECT_FAILS(rrecv(pair.passive, &byte, 1, MSG_DONTWAIT), EAGAIN);
  ASSERT_EQ(rfcntl(pair.passive, F_SETFL, O_NONBLOCK), 0);
  EXPECT_TRUE((rfcntl(pair.passive, F_GETFL) & O_NONBLOCK) != 0);
  EXPECT_FAILS(rrecv(pair.passive, &byte, 1, 0), EAGAIN);
  // The writer stops when both buffers are full, and goes on when the reader has read.
  const std::string chunk(50'000, 'x');
  size_t sent = 0;
  while (poll_for(pair.active, POLLOUT, 100) != 0) {
    const ssize_t now = rsend(pair.active, chunk.data(), chunk.size(), MSG_DONTWAIT);
    ASSERT_GT(now, 0);
    sent += static_cast<size_t>(now);
    ASSERT_LT(sent, size_t{4} << 20);
  }
  EXPECT_FAILS(rsend(pair.active, chunk.data(), chunk.size(), MSG_DONTWAIT), EAGAIN);
  for (size_t got = 0; got < sent;) {
    ASSERT_EQ(poll_for(pair.passive, POLLIN), POLLIN);
    got += read_some(pair.passive, 100'000).size();
  }
  EXPECT_EQ(poll_for(pair.active, POLLOUT), POLLOUT);
}

TEST(RsocketStream, TimeLimitsHold) {
  const Streams pair;
  const timeval limit{.tv_sec = 0, .tv_usec = 30'000};
  ASSERT_EQ(rsetsockopt(pair.passive, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
  char byte = 0;
  const auto began = std::chrono::steady_clock::now();
  EXPECT_FAILS(rrecv(pair.passive, &byte, 1, 0), EAGAIN);
  EXPECT_GE(std::chrono::steady_clock::now() - began, 30ms);
}

TEST(RsocketStream, ShutdownEndsOneDirection) {
  const Streams pair;
  write_all(pair.active, "last");
  ASSERT_EQ(rshutdown(pair.active, SHUT_WR), 0);
  EXPECT_FAILS(rsend(pair.active, "x", 1, 0), EPIPE);
  EXPECT_EQ(read_some(pair.passive), "last");
  EXPECT_EQ(read_some(pair.passive), "");
  EXPECT_EQ(poll_for(pair.passive, POLLIN | POLLRDHUP), POLLIN | POLLRDHUP);
  write_all(pair.passive, "answer");
  EXPECT_EQ(read_some(pair.active), "answer");
  ASSERT_EQ(rshutdown(pair.passive, SHUT_WR), 0);
  EXPECT_EQ(read_some(pair.active), "");
}

TEST(RsocketStream, WhatWasSentBeforeTheEndArrives) {
  constexpr size_t kTotal = 100'000;
  Streams pair;
  write_all(pair.active, std::string(kTotal, 'z'));
  pair.close_active();
  size_t got = 0;
  while (got < kTotal) {
    const std::string now = read_some(pair.passive, 30'000);
    ASSERT_FALSE(now.empty());
    EXPECT_EQ(now.find_first_not_of('z'), std::string::npos);
    got += now.size();
  }
  EXPECT_EQ(read_some(pair.passive), "");
  EXPECT_EQ(poll_for(pair.passive, POLLIN | POLLOUT), POLLIN | POLLOUT | POLLHUP);
  EXPECT_FAILS(rsend(pair.passive, "x", 1, 0), ECONNRESET);
}

TEST(RsocketStream, CloseWakesWhoWaits) {
  Streams pair;
  std::atomic<bool> waits = false;
  std::thread waiter([&] {
    char byte = 0;
    const int socket = pair.passive;
    waits = true;
    EXPECT_LE(rrecv(socket, &byte, 1, 0), 0);
  });
  while (!waits) std::this_thread::yield();
  std::this_thread::sleep_for(20ms);
  pair.close_passive();
  waiter.join();
}

TEST(RsocketStream, ManyThreadsSleepForOneSocket) {
  const Streams pair;
  std::atomic<int> got = 0;
  std::vector<std::thread> readers;
  for (int i = 0; i < 4; ++i) {
    readers.emplace_back([&] {
      char byte = 0;
      EXPECT_EQ(rrecv(pair.passive, &byte, 1, 0), 1);
      ++got;
    });
  }
  std::thread poller([&] { EXPECT_NE(poll_for(pair.passive, POLLIN), 0); });
  std::this_thread::sleep_for(20ms);
  // At once: one of them takes the completion of all.
  write_all(pair.active, "12345");
  for (std::thread& reader : readers) reader.join();
  poller.join();
  EXPECT_EQ(got, 4);
}

TEST(RsocketStream, ASignalEndsTheWaitUnlessItsHandlerRestarts) {
  static std::atomic<int> handled;
  const Streams pair;
  for (const int flags : {0, SA_RESTART}) {
    handled = 0;
    struct sigaction counting{};
    counting.sa_handler = [](int) { ++handled; };
    counting.sa_flags = flags;
    struct sigaction before{};
    ASSERT_EQ(::sigaction(SIGUSR1, &counting, &before), 0);
    std::atomic<bool> done = false;
    std::thread waiter([&] {
      char byte = 0;
      if (flags == 0) {
        EXPECT_FAILS(rrecv(pair.passive, &byte, 1, 0), EINTR);
      } else {
        EXPECT_EQ(rrecv(pair.passive, &byte, 1, 0), 1);
      }
      done = true;
    });
    for (int sent = 0; sent < 20 || (flags == 0 && !done); ++sent) {
      if (!done) ::pthread_kill(waiter.native_handle(), SIGUSR1);
      std::this_thread::sleep_for(1ms);
    }
    EXPECT_GT(handled, 0);
    if (flags != 0) write_all(pair.active, "x");
    waiter.join();
    ASSERT_EQ(::sigaction(SIGUSR1, &before, nullptr), 0);
  }
}

TEST(RsocketStream, NobodyListens) {
  uint16_t port = 0;
  {
    const Listener gone;
    port = ntohs(gone.address().sin_port);
  }
  const sockaddr_in to = loopback(port);
  const int blocking = ::rsocket(AF_INET, SOCK_STREAM, 0);
  EXPECT_FAILS(rconnect(blocking, raw(to), sizeof to), ECONNREFUSED);
  EXPECT_FAILS(rsend(blocking, "x", 1, 0), ENOTCONN);
  EXPECT_EQ(rclose(blocking), 0);

  const int nonblocking = ::rsocket(AF_INET, SOCK_STREAM, 0);
  ASSERT_EQ(rfcntl(nonblocking, F_SETFL, O_NONBLOCK), 0);
  EXPECT_FAILS(rconnect(nonblocking, raw(to), sizeof to), EINPROGRESS);
  EXPECT_EQ(poll_for(nonblocking, POLLOUT), POLLOUT | POLLERR | POLLHUP);
  int error = 0;
  socklen_t length = sizeof error;
  EXPECT_EQ(rgetsockopt(nonblocking, SOL_SOCKET, SO_ERROR, &error, &length), 0);
  EXPECT_EQ(error, ECONNREFUSED);
  EXPECT_EQ(rclose(nonblocking), 0);
}

TEST(RsocketStream, AThreadConnectsToItself) {
  const Listener listener;
  const int active = ::rsocket(AF_INET, SOCK_STREAM, 0);
  ASSERT_EQ(rfcntl(active, F_SETFL, O_NONBLOCK), 0);
  EXPECT_FAILS(rconnect(active, raw(listener.address()), sizeof(sockaddr_in)), EINPROGRESS);
  EXPECT_EQ(poll_for(listener.socket(), POLLIN), POLLIN);
  const int passive = raccept(listener.socket(), nullptr, nullptr);
  ASSERT_GE(passive, 0);
  EXPECT_EQ(poll_for(active, POLLOUT), POLLOUT);
  EXPECT_FAILS(rconnect(active, raw(listener.address()), sizeof(sockaddr_in)), EISCONN);
  EXPECT_EQ(rclose(active), 0);
  EXPECT_EQ(rclose(passive), 0);
}

TEST(RsocketStream, PollAndSelectTakeOtherDescriptorsToo) {
  const Streams pair;
  const int other = ::eventfd(0, EFD_CLOEXEC);
  std::array<pollfd, 3> fds{{{.fd = pair.passive, .events = POLLIN, .revents = 0},
                             {.fd = other, .events = POLLIN, .revents = 0},
                             {.fd = -1, .events = POLLIN, .revents = 7}}};
  EXPECT_EQ(rpoll(fds.data(), fds.size(), 10), 0);
  EXPECT_EQ(fds[2].revents, 0);
  std::thread later([&] {
    std::this_thread::sleep_for(10ms);
    const uint64_t one = 1;
    EXPECT_EQ(::write(other, &one, sizeof one), ssize_t{sizeof one});
  });
  EXPECT_EQ(rpoll(fds.data(), fds.size(), kTestPatienceMs), 1);
  EXPECT_EQ(fds[1].revents, POLLIN);
  later.join();
  write_all(pair.active, "x");
  EXPECT_EQ(poll_for(pair.passive, POLLIN), POLLIN);
  fd_set reads;
  fd_set writes;
  FD_ZERO(&reads);
  FD_ZERO(&writes);
  for (const int fd : {other, pair.active, pair.passive}) FD_SET(fd, &reads);
  FD_SET(pair.active, &writes);
  timeval limit{.tv_sec = 20, .tv_usec = 0};
  const int most = std::max({other, pair.active, pair.passive}) + 1;
  EXPECT_EQ(rselect(most, &reads, &writes, nullptr, &limit), 3);
  EXPECT_TRUE(FD_ISSET(other, &reads));
  EXPECT_TRUE(FD_ISSET(pair.passive, &reads));
  EXPECT_FALSE(FD_ISSET(pair.active, &reads));
  EXPECT_TRUE(FD_ISSET(pair.active, &writes));
  ::close(other);
}

TEST(RsocketStream, Options) {
  const int socket = ::rsocket(AF_INET, SOCK_STREAM, 0);
  const auto get = [&](int level, int name) {
    int value = -1;
    socklen_t length = sizeof value;
    EXPECT_EQ(rgetsockopt(socket, level, name, &value, &length), 0) << level << ", " << name;
    return value;
  };
  const auto set = [&](int level, int name, int value) {
    return rsetsockopt(socket, level, name, &value, sizeof value);
  };
  EXPECT_EQ(get(SOL_SOCKET, SO_TYPE), SOCK_STREAM);
  EXPECT_EQ(get(SOL_SOCKET, SO_RCVBUF), 1 << 17);
  EXPECT_EQ(set(SOL_SOCKET, SO_RCVBUF, 20'000), 0);
  EXPECT_EQ(get(SOL_SOCKET, SO_RCVBUF), 40'000);
  EXPECT_EQ(set(IPPROTO_TCP, TCP_NODELAY, 1), 0);
  EXPECT_EQ(get(IPPROTO_TCP, TCP_NODELAY), 1);
  EXPECT_EQ(set(SOL_SOCKET, SO_KEEPALIVE, 1), 0);
  EXPECT_EQ(get(SOL_SOCKET, SO_KEEPALIVE), 1);
  EXPECT_EQ(set(IPPROTO_TCP, TCP_KEEPIDLE, 60), 0);
  EXPECT_EQ(get(IPPROTO_TCP, TCP_KEEPIDLE), 60);
  EXPECT_EQ(set(SOL_SOCKET, SO_REUSEADDR, 1), 0);
  EXPECT_EQ(get(SOL_SOCKET, SO_REUSEADDR), 1);
  EXPECT_EQ(set(SOL_RDMA, RDMA_SQSIZE, 100), 0);
  EXPECT_EQ(get(SOL_RDMA, RDMA_SQSIZE), 100);
  EXPECT_EQ(set(SOL_RDMA, RDMA_IOMAPSIZE, 5), 0);
  EXPECT_EQ(get(SOL_RDMA, RDMA_IOMAPSIZE), 5);
  EXPECT_EQ(get(SOL_SOCKET, SO_ERROR), 0);
  EXPECT_FAILS(set(SOL_SOCKET, SO_MARK, 1), EOPNOTSUPP);
  EXPECT_FAILS(set(IPPROTO_TCP, TCP_KEEPIDLE, 0), EINVAL);
  EXPECT_EQ(rclose(socket), 0);
  EXPECT_FAILS(rclose(socket), EBADF);
  EXPECT_FAILS(::rsocket(AF_UNIX, SOCK_STREAM, 0), EOPNOTSUPP);
}

TEST(RsocketStream, MappedBuffersAreWrittenDirectly) {
  const Listener listener;
  int entries = 4;
  const int active = ::rsocket(AF_INET, SOCK_STREAM, 0);
  for (const int socket : {active, listener.socket()}) {
    ASSERT_EQ(rsetsockopt(socket, SOL_RDMA, RDMA_IOMAPSIZE, &entries, sizeof entries), 0);
  }
  ASSERT_EQ(rfcntl(active, F_SETFL, O_NONBLOCK), 0);
  EXPECT_FAILS(rconnect(active, raw(listener.address()), sizeof(sockaddr_in)), EINPROGRESS);
  const int passive = raccept(listener.socket(), nullptr, nullptr);
  ASSERT_GE(passive, 0);
  EXPECT_EQ(poll_for(active, POLLOUT), POLLOUT);
  ASSERT_EQ(rfcntl(active, F_SETFL, 0), 0);

  std::string target(300'000, '.');
  ASSERT_EQ(riomap(passive, target.data(), target.size(), PROT_WRITE, 0, 1000), 1000);
  write_all(passive, "mapped");
  EXPECT_EQ(read_some(active), "mapped");
  std::string source(250'000, '\0');
  for (size_t i = 0; i < source.size(); ++i) source[i] = byte_at(i);
  EXPECT_EQ(riowrite(active, source.data(), source.size(), 1010, 0), source.size());
  EXPECT_EQ(riowrite(active, source.data(), 10, 0, 0), 0U);  // nothing is mapped there
  write_all(active, "written");
  EXPECT_EQ(read_some(passive), "written");
  EXPECT_EQ(target.substr(10, source.size()), source);
  EXPECT_EQ(target.substr(0, 10), "..........");
  EXPECT_EQ(target.substr(10 + source.size()).find_first_not_of('.'), std::string::npos);

  EXPECT_FAILS(riounmap(passive, target.data(), 7), EINVAL);
  EXPECT_EQ(riounmap(passive, target.data(), target.size()), 0);
  for (int i = 0; i < entries; ++i) {
    EXPECT_EQ(riomap(passive, target.data(), 100, PROT_WRITE, 0, i), i);
  }
  EXPECT_FAILS(riomap(passive, target.data(), 100, PROT_WRITE, 0, 9), ENOMEM);
  EXPECT_EQ(rclose(active), 0);
  EXPECT_EQ(rclose(passive), 0);
}

TEST(RsocketStream, LeavesNoDescriptors) {
  { const Streams warm_up; }
  const size_t before = open_descriptors();
  for (int i = 0; i < 10; ++i) {
    Streams pair;
    write_all(pair.active, "x");
    EXPECT_EQ(read_some(pair.passive), "x");
    if (i % 2 == 0) pair.close_passive();
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(RsocketStream, AChildOfForkHasNone) {
  const Streams pair;
  const pid_t child = ::fork();
  if (child == 0) {
    char byte = 0;
    const bool refused = rrecv(pair.passive, &byte, 1, 0) == -1 && errno == EBADF &&
                         rsend(pair.passive, "x", 1, 0) == -1 && errno == EBADF &&
                         rclose(pair.passive) == -1 && errno == EBADF;
    ::_exit(refused ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  write_all(pair.active, "still here");
  EXPECT_EQ(read_some(pair.passive), "still here");
}

}  // namespace
}  // namespace verbena::rsocket
