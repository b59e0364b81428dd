// SPDX-License-Identifier: Apache-2.0
#include "rspreload/turning.h"

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <rdma/rsocket.h>
#include <unistd.h>

#include "base/next_function.h"
#include "rspreload/config.h"

namespace verbena::rspreload {
namespace {

void copy_options(int from, int to) {
  const int flags = NEXT(fcntl)(from, F_GETFL);
  if (flags >= 0) (void)rfcntl(to, F_SETFL, static_cast<long>(flags & O_NONBLOCK));
  constexpr std::pair<int, int> kOptions[] = {
      {SOL_SOCKET, SO_REUSEADDR}, {SOL_SOCKET, SO_KEEPALIVE}, {IPPROTO_TCP, TCP_NODELAY}};
  for (const auto& [level, name] : kOptions) {
    int value = 0;
    socklen_t length = sizeof value;
    if (NEXT(getsockopt)(from, level, name, &value, &length) == 0 && value != 0) {
      (void)rsetsockopt(to, level, name, &value, length);
    }
  }
}

// As long as this, calls on the kernel's socket wait.
class Blocking {
 public:
  explicit Blocking(int fd) : fd_(fd), flags_(NEXT(fcntl)(fd, F_GETFL)) {
    (void)NEXT(fcntl)(fd_, F_SETFL, flags_ & ~O_NONBLOCK);
  }
  ~Blocking() { (void)NEXT(fcntl)(fd_, F_SETFL, flags_); }

 private:
  int fd_;
  int flags_;
};

// The side that connected. The other one says with four bytes of 0 that it listens for RDMA, too;
// if it says anything else, it has no rsockets.
[[nodiscard]] int turn_active(int fd) {
  uint32_t word = 1;
  sockaddr_storage peer{};
  socklen_t length = sizeof peer;
  {
    const Blocking blocking(fd);
    if (NEXT(recv)(fd, &word, sizeof word, MSG_PEEK | MSG_WAITALL) != sizeof word || word != 0) {
      return -1;
    }
  }
  auto* const address = reinterpret_cast<sockaddr*>(&peer);
  if (NEXT(getpeername)(fd, address, &length) != 0) return -1;
  const int made = make_rsocket(peer.ss_family, SOCK_STREAM);
  if (made < 0) return -1;
  if (rconnect(made, address, length) != 0) {
    (void)rclose(made);
    return -1;
  }
  return made;
}

// Whether both are of the same host; the ports are different ones.
[[nodiscard]] bool same_host(const sockaddr_storage& a, const sockaddr_storage& b) {
  if (a.ss_family != b.ss_family) return false;
  if (a.ss_family == AF_INET) {
    return reinterpret_cast<const sockaddr_in&>(a).sin_addr.s_addr ==
           reinterpret_cast<const sockaddr_in&>(b).sin_addr.s_addr;
  }
  return std::memcmp(&reinterpret_cast<const sockaddr_in6&>(a).sin6_addr,
                     &reinterpret_cast<const sockaddr_in6&>(b).sin6_addr, sizeof(in6_addr)) == 0;
}

// One process at a time has the port: it accepts one connection and lets go.
[[nodiscard]] bool take_port(int listener, const sockaddr_storage& at, socklen_t length) {
  constexpr int kTries = 10'000;
  constexpr timespec kAWhile{.tv_sec = 0, .tv_nsec = 1'000'000};
  for (int i = 0; i < kTries; ++i) {
    if (rbind(listener, reinterpret_cast<const sockaddr*>(&at), length) == 0) {
      return rlisten(listener, 1) == 0;
    }
    if (errno != EADDRINUSE) return false;
    (void)::nanosleep(&kAWhile, nullptr);
  }
  return false;
}

[[nodiscard]] int accept_peer(int listener, const sockaddr_storage& peer) {
  constexpr timeval kPatience{.tv_sec = 10, .tv_usec = 0};
  (void)rsetsockopt(listener, SOL_SOCKET, SO_RCVTIMEO, &kPatience, sizeof kPatience);
  for (;;) {
    sockaddr_storage came{};
    socklen_t length = sizeof came;
    const int made = raccept(listener, reinterpret_cast<sockaddr*>(&came), &length);
    if (made < 0 || same_host(came, peer)) return made;
    (void)rclose(made);
  }
}

// The side that accepted.
[[nodiscard]] int turn_passive(int fd) {
  sockaddr_storage here{};
  sockaddr_storage peer{};
  socklen_t here_length = sizeof here;
  socklen_t peer_length = sizeof peer;
  if (NEXT(getsockname)(fd, reinterpret_cast<sockaddr*>(&here), &here_length) != 0) return -1;
  if (NEXT(getpeername)(fd, reinterpret_cast<sockaddr*>(&peer), &peer_length) != 0) return -1;
  const int listener = make_rsocket(here.ss_family, SOCK_STREAM);
  if (listener < 0) return -1;
  int made = -1;
  if (take_port(listener, here, here_length)) {
    const Blocking blocking(fd);
    const uint32_t word = 0;
    if (NEXT(send)(fd, &word, sizeof word, MSG_NOSIGNAL) == sizeof word) {
      made = accept_peer(listener, peer);
    }
  }
  (void)rclose(listener);
  return made;
}

// An rsocket that was refused cannot be connected any more, but the kernel's socket can: a program
// may try again. Leaves errno alone.
void renew(int fd, Entry& entry) {
  const int error = errno;
  const auto kernels = [&](int name) {
    int value = 0;
    socklen_t length = sizeof value;
    (void)NEXT(getsockopt)(fd, SOL_SOCKET, name, &value, &length);
    return value;
  };
  const int made = make_rsocket(kernels(SO_DOMAIN), kernels(SO_TYPE));
  if (made >= 0) {
    (void)rclose(entry.socket());  // has the address
    copy_options(fd, made);
    if (entry.bound_length != 0) {
      (void)rbind(made, reinterpret_cast<const sockaddr*>(&entry.bound), entry.bound_length);
    }
    entry.become_rsocket(made);
  }
  errno = error;
}

void say_once(const sockaddr* address, int error) {
  static std::atomic<bool> said = false;
  if (config().quiet || said.exchange(true)) return;
  char host[INET6_ADDRSTRLEN] = "?";
  uint16_t port = 0;
  if (address->sa_family == AF_INET) {
    const auto& to = *reinterpret_cast<const sockaddr_in*>(address);
    (void)::inet_ntop(AF_INET, &to.sin_addr, host, sizeof host);
    port = ntohs(to.sin_port);
  } else {
    const auto& to = *reinterpret_cast<const sockaddr_in6*>(address);
    (void)::inet_ntop(AF_INET6, &to.sin6_addr, host, sizeof host);
    port = ntohs(to.sin6_port);
  }
  char line[160];
  const int length = std::snprintf(
      line, sizeof line, "librspreload: no rsocket at %s, port %u (%s): connected by TCP\n", host,
      unsigned{port}, std::strerror(error));
  if (length > 0) (void)NEXT(write)(STDERR_FILENO, line, static_cast<size_t>(length));
}

}  // namespace

int make_rsocket(int domain, int type) {
  const int made = rsocket(domain, type, 0);
  if (made < 0) return made;
  const auto set = [&](int name, int value) {
    (void)rsetsockopt(made, SOL_RDMA, name, &value, sizeof value);
  };
  if (config().send_places > 0) set(RDMA_SQSIZE, config().send_places);
  if (config().receive_places > 0) set(RDMA_RQSIZE, config().receive_places);
  if (config().inline_bytes >= 0) set(RDMA_INLINE, config().inline_bytes);
  return made;
}

int carrier(int fd, const HeldEntry& entry) {
  if (!entry) return -1;
  if (entry->kind() == Kind::kConnected || entry->kind() == Kind::kAccepted) {
    const MutexLock lock(entry->turning);
    const Kind kind = entry->kind();
    if (kind == Kind::kConnected || kind == Kind::kAccepted) {
      const int error = errno;
      const int made = kind == Kind::kConnected ? turn_active(fd) : turn_passive(fd);
      errno = error;
      if (made >= 0) {
        copy_options(fd, made);
        (void)NEXT(shutdown)(fd, SHUT_RDWR);
        entry->become_rsocket(made);
      } else {
        entry->become(Kind::kKernels);
      }
    }
  }
  return entry->socket();
}

int connect_by_tcp(int fd, Entry& entry, const sockaddr* address, socklen_t length) {
  const int error = errno;
  if (entry.bound_length != 0) {
    (void)NEXT(bind)(fd, reinterpret_cast<const sockaddr*>(&entry.bound), entry.bound_length);
  }
  const int outcome = NEXT(connect)(fd, address, length);
  if (outcome != 0 && errno != EINPROGRESS) {
    renew(fd, entry);
    return outcome;
  }
  const int socket = entry.socket();
  entry.become(Kind::kKernels);
  entry.drop_socket();
  (void)rclose(socket);
  say_once(address, error);
  return outcome;
}

}  // namespace verbena::rspreload
