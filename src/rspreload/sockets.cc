// SPDX-License-Identifier: Apache-2.0
// Making sockets, connecting them, and what is known of them.
#include <cerrno>
#include <new>

#include <dlfcn.h>
#include <fcntl.h>
#include <infiniband/verbs.h>
#include <rdma/rsocket.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/c_interface.h"
#include "base/next_function.h"
#include "rspreload/config.h"
#include "rspreload/epoll.h"
#include "rspreload/table.h"
#include "rspreload/turning.h"

namespace verbena::rspreload {
namespace {

// The library that a function is in.
[[nodiscard]] const void* home_of(const void* address) {
  Dl_info found{};
  return ::dladdr(address, &found) != 0 ? found.dli_fbase : nullptr;
}

// The libraries below have sockets of their own, which must stay what they are.
[[nodiscard]] bool is_below(const void* caller) {
  static const void* const kRdmacm = home_of(reinterpret_cast<const void*>(&::rsocket));
  static const void* const kVerbs = home_of(reinterpret_cast<const void*>(&::ibv_get_device_list));
  const void* const home = home_of(caller);
  return home != nullptr && (home == kRdmacm || home == kVerbs);
}

// A descriptor for an rsocket; -1 and errno. Both are closed then.
[[nodiscard]] int show(int fd, Kind kind, int socket) {
  auto* const entry = new (std::nothrow) Entry(kind, socket);
  if (entry != nullptr && insert(fd, entry)) return fd;
  delete entry;
  if (socket >= 0) (void)rclose(socket);
  (void)NEXT(close)(fd);
  errno = ENOMEM;
  return -1;
}

[[nodiscard]] int open_placeholder(int domain, int type, int flags) {
  return NEXT(socket)(domain, type | (flags & (SOCK_CLOEXEC | SOCK_NONBLOCK)), 0);
}

[[nodiscard]] int accept_on(int fd, sockaddr* address, socklen_t* length, int flags) {
  const HeldEntry listener = find(fd);
  if (!listener || (listener->socket() < 0 && listener->kind() != Kind::kListening)) {
    return NEXT(accept4)(fd, address, length, flags);
  }
  if (listener->kind() == Kind::kListening) {
    const int made = NEXT(accept4)(fd, address, length, flags);
    return made < 0 ? made : show(made, Kind::kAccepted, -1);
  }
  const int made = raccept(listener->socket(), address, length);
  used(*listener);
  if (made < 0) return made;
  int domain = AF_INET;
  socklen_t domain_length = sizeof domain;
  (void)NEXT(getsockopt)(fd, SOL_SOCKET, SO_DOMAIN, &domain, &domain_length);
  const int shown = open_placeholder(domain, SOCK_STREAM, flags);
  if (shown < 0) {
    const int error = errno;
    (void)rclose(made);
    errno = error;
    return -1;
  }
  if ((flags & SOCK_NONBLOCK) != 0) (void)rfcntl(made, F_SETFL, long{O_NONBLOCK});
  return show(shown, Kind::kRsocket, made);
}

}  // namespace
}  // namespace verbena::rspreload

using namespace verbena::rspreload;

VERBENA_EXPORT int socket(int domain, int type, int protocol) noexcept {
  const int fd = NEXT(socket)(domain, type, protocol);
  constexpr int kFlags = SOCK_CLOEXEC | SOCK_NONBLOCK;
  const int kind = type & ~kFlags;
  if (fd < 0 || !is_wanted(domain, kind, protocol)) return fd;
  // Name servers are asked with datagrams, by resolvers that set these flags; they have no
  // rsockets.
  if (kind == SOCK_DGRAM && (type & kFlags) != 0) return fd;
  if (is_below(__builtin_return_address(0))) return fd;
  if (config().fork_support && kind == SOCK_STREAM) return show(fd, Kind::kKernels, -1);
  const int error = errno;
  const int made = make_rsocket(domain, kind);
  errno = error;
  if (made < 0) return fd;
  if ((type & SOCK_NONBLOCK) != 0) (void)rfcntl(made, F_SETFL, long{O_NONBLOCK});
  return show(fd, Kind::kRsocket, made);
}

VERBENA_EXPORT int bind(int fd, const sockaddr* address, socklen_t length) noexcept {
  const HeldEntry entry = find(fd);
  if (!entry || entry->socket() < 0) return NEXT(bind)(fd, address, length);
  const int outcome = rbind(entry->socket(), address, length);
  if (outcome == 0 && length <= sizeof entry->bound) {
    __builtin_memcpy(&entry->bound, address, length);
    entry->bound_length = length;
  }
  return outcome;
}

VERBENA_EXPORT int listen(int fd, int backlog) noexcept {
  const HeldEntry entry = find(fd);
  if (entry && entry->socket() >= 0) return rlisten(entry->socket(), backlog);
  const int outcome = NEXT(listen)(fd, backlog);
  if (outcome == 0 && entry && config().fork_support) entry->become(Kind::kListening);
  return outcome;
}

VERBENA_EXPORT int accept(int fd, sockaddr* address, socklen_t* length) {
  return accept_on(fd, address, length, 0);
}

VERBENA_EXPORT int accept4(int fd, sockaddr* address, socklen_t* length, int flags) {
  return accept_on(fd, address, length, flags);
}

VERBENA_EXPORT int connect(int fd, const sockaddr* address, socklen_t length) {
  const HeldEntry entry = find(fd);
  if (!entry) return NEXT(connect)(fd, address, length);
  if (entry->socket() < 0) {
    const int outcome = NEXT(connect)(fd, address, length);
    const bool begun = outcome == 0 || errno == EINPROGRESS;
    if (begun && config().fork_support && entry->kind() == Kind::kKernels) {
      entry->become(Kind::kConnected);
    }
    return outcome;
  }
  const int outcome = rconnect(entry->socket(), address, length);
  if (outcome == 0) return 0;
  switch (errno) {
    case EINPROGRESS:
    case EALREADY:
    case EISCONN:
    case EINTR:       return outcome;
    default:          return connect_by_tcp(fd, *entry, address, length);
  }
}

VERBENA_EXPORT int shutdown(int fd, int how) noexcept {
  const HeldEntry entry = find(fd);
  const int socket = carrier(fd, entry);
  if (socket < 0) return NEXT(shutdown)(fd, how);
  const int outcome = rshutdown(socket, how);
  used(*entry);
  return outcome;
}

VERBENA_EXPORT int getpeername(int fd, sockaddr* address, socklen_t* length) noexcept {
  const HeldEntry entry = find(fd);
  if (!entry || entry->socket() < 0) return NEXT(getpeername)(fd, address, length);
  return rgetpeername(entry->socket(), address, length);
}

VERBENA_EXPORT int getsockname(int fd, sockaddr* address, socklen_t* length) noexcept {
  const HeldEntry entry = find(fd);
  if (!entry || entry->socket() < 0) return NEXT(getsockname)(fd, address, length);
  return rgetsockname(entry->socket(), address, length);
}

// The kernel's socket has them, too: for those that rsockets do not know, and if it is used at
// last.
VERBENA_EXPORT int setsockopt(int fd, int level, int name, const void* value,
                              socklen_t length) noexcept {
  const HeldEntry entry = find(fd);
  if (!entry || entry->socket() < 0) return NEXT(setsockopt)(fd, level, name, value, length);
  const int error = errno;
  const int outcome = rsetsockopt(entry->socket(), level, name, value, length);
  if (outcome != 0 && errno != EOPNOTSUPP) return outcome;
  errno = error;
  const int kernels = NEXT(setsockopt)(fd, level, name, value, length);
  return outcome == 0 ? 0 : kernels;
}

VERBENA_EXPORT int getsockopt(int fd, int level, int name, void* value,
                              socklen_t* length) noexcept {
  const HeldEntry entry = find(fd);
  if (!entry || entry->socket() < 0) return NEXT(getsockopt)(fd, level, name, value, length);
  const int error = errno;
  const int outcome = rgetsockopt(entry->socket(), level, name, value, length);
  if (outcome == 0 || errno != EOPNOTSUPP) return outcome;
  errno = error;
  return NEXT(getsockopt)(fd, level, name, value, length);
}
