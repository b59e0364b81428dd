// SPDX-License-Identifier: Apache-2.0
// <rdma/rsocket.h>: the calls, by number.
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdlib>
#include <new>
#include <span>
#include <vector>

#include <fcntl.h>
#include <netinet/in.h>
#include <rdma/rsocket.h>

#include "base/c_interface.h"
#include "rsocket/datagram.h"
#include "rsocket/poll.h"
#include "rsocket/registry.h"
#include "rsocket/stream.h"

namespace verbena::rsocket {
namespace {

// A value, or -1 and errno for a negative error number. Nothing is thrown into the program.
template <typename Call>
[[nodiscard]] auto answered(Call&& call) -> decltype(call()) {
  try {
    const auto value = call();
    if (value >= 0) return value;
    errno = static_cast<int>(-value);
  } catch (const std::bad_alloc&) {
    errno = ENOMEM;
  }
  return -1;
}

template <typename Call>
[[nodiscard]] auto on(int number, Call&& call) -> decltype(call(std::declval<Socket&>())) {
  return answered([&]() -> decltype(call(std::declval<Socket&>())) {
    const Held socket = Registry::of_process().find(number);
    if (!socket) return -EBADF;
    return call(*socket.get());
  });
}

// exit() without rclose(): what was sent shall arrive, as it does with the kernel's sockets.
void leave_at_exit() {
  constexpr auto kPatienceAtExit = std::chrono::seconds(2);
  const auto deadline = Clock::now() + kPatienceAtExit;
  try {
    for (const Held& socket : Registry::of_process().all()) socket->leave(deadline);
  } catch (const std::bad_alloc&) {
    return;
  }
}

template <typename Kind>
[[nodiscard]] int make_of(int domain) {
  Kind* socket = nullptr;
  if (const int error = Kind::make(domain, socket); error != 0) return -error;
  const int number = socket->number();
  Registry::of_process().add(socket);
  return number;
}

[[nodiscard]] int make_socket(int domain, int type, int protocol) {
  if (domain != AF_INET && domain != AF_INET6) return -EOPNOTSUPP;
  if (type == SOCK_STREAM && (protocol == 0 || protocol == IPPROTO_TCP)) {
    return make_of<Stream>(domain);
  }
  if (type == SOCK_DGRAM && (protocol == 0 || protocol == IPPROTO_UDP)) {
    return make_of<DatagramSocket>(domain);
  }
  return -EOPNOTSUPP;
}

[[nodiscard]] int accept_from(Socket& listener, sockaddr* address, socklen_t* length) {
  // The device registered its own by now; the last one to register runs first.
  [[maybe_unused]] static const int kRegistered = std::atexit(leave_at_exit);
  Socket* made = nullptr;
  if (const int error = listener.accept(made); error != 0) return error;
  const int number = made->number();
  if (address != nullptr && length != nullptr) (void)made->peer_name(address, length);
  Registry::of_process().add(made);
  return number;
}

[[nodiscard]] int connect_to(Socket& socket, const sockaddr* address, socklen_t length) {
  const int outcome = socket.connect(address, length);
  [[maybe_unused]] static const int kRegistered = std::atexit(leave_at_exit);
  return outcome;
}

[[nodiscard]] std::optional<Clock::time_point> deadline_in(std::chrono::microseconds most) {
  return Clock::now() + most;
}

[[nodiscard]] int select_any(int count, fd_set* reads, fd_set* writes, fd_set* exceptions,
                             const timeval* timeout) {
  constexpr short kReads = POLLIN | POLLRDNORM | POLLHUP | POLLERR;
  constexpr short kWrites = POLLOUT | POLLWRNORM | POLLERR;
  if (count < 0 || count > FD_SETSIZE) return -EINVAL;
  const auto has = [](const fd_set* set, int fd) { return set != nullptr && FD_ISSET(fd, set); };
  std::vector<pollfd> asked;
  for (int fd = 0; fd < count; ++fd) {
    short events = 0;
    if (has(reads, fd)) events |= POLLIN;
    if (has(writes, fd)) events |= POLLOUT;
    if (has(exceptions, fd)) events |= POLLPRI;
    if (events != 0) asked.push_back({.fd = fd, .events = events, .revents = 0});
  }
  std::optional<Clock::time_point> until;
  if (timeout != nullptr) {
    if (timeout->tv_sec < 0 || timeout->tv_usec < 0) return -EINVAL;
    until = deadline_in(std::chrono::seconds(std::min<time_t>(timeout->tv_sec, INT32_MAX)) +
                        std::chrono::microseconds(timeout->tv_usec));
  }
  const int outcome = poll_any(asked, until);
  if (outcome < 0) return outcome;
  for (fd_set* const set : {reads, writes, exceptions}) {
    if (set != nullptr) FD_ZERO(set);
  }
  int ready = 0;
  const auto show = [&](const pollfd& one, fd_set* set, short asked_for, short wanted) {
    if (set == nullptr || (one.events & asked_for) == 0 || (one.revents & wanted) == 0) return;
    FD_SET(one.fd, set);
    ++ready;
  };
  for (const pollfd& one : asked) {
    if ((one.revents & POLLNVAL) != 0) return -EBADF;
    show(one, reads, POLLIN, kReads);
    show(one, writes, POLLOUT, kWrites);
    show(one, exceptions, POLLPRI, POLLPRI);
  }
  return ready;
}

[[nodiscard]] int control(Socket& socket, int command, long argument) {
  switch (command) {
    case F_GETFL: return socket.flags() | O_RDWR;
    case F_SETFL: socket.set_flags(static_cast<int>(argument) & O_NONBLOCK); return 0;
    case F_GETFD:
    case F_SETFD: {
      const int outcome = ::fcntl(socket.number(), command, argument);
      return outcome < 0 ? -errno : outcome;
    }
    default: return -EOPNOTSUPP;
  }
}

[[nodiscard]] iovec one_piece(const void* buffer, size_t length) {
  return {.iov_base = const_cast<void*>(buffer), .iov_len = length};
}

// As the kernel checks them: 0 or a negative error number, which is `too_many` for the count.
[[nodiscard]] int check(const iovec* pieces, size_t count, int too_many) {
  if (count > IOV_MAX) return -too_many;
  size_t left = SSIZE_MAX;
  for (const iovec& piece : std::span(pieces, count)) {
    if (piece.iov_len > left) return -EINVAL;
    left -= piece.iov_len;
  }
  return 0;
}

// There are no errors queued for a socket, nor data out of band: 0 or a negative error number.
[[nodiscard]] int check_source(int flags) {
  if ((flags & MSG_ERRQUEUE) != 0) return -EAGAIN;
  return (flags & MSG_OOB) != 0 ? -EINVAL : 0;
}

[[nodiscard]] ssize_t receive_into(int number, const iovec* pieces, size_t count, int flags,
                                   sockaddr* from = nullptr, socklen_t* length = nullptr) {
  return on(number, [&](Socket& socket) -> ssize_t {
    if (const int error = check(pieces, count, EINVAL); error != 0) return error;
    if (const int error = check_source(flags); error != 0) return error;
    Pieces into(pieces, count);
    return socket.receive(into, flags, from, length);
  });
}

[[nodiscard]] ssize_t send_from(int number, const iovec* pieces, size_t count, int flags,
                                int too_many = EINVAL, const sockaddr* to = nullptr,
                                socklen_t length = 0) {
  return on(number, [&](Socket& socket) -> ssize_t {
    if (const int error = check(pieces, count, too_many); error != 0) return error;
    Pieces from(pieces, count);
    return socket.send(from, flags, to, length);
  });
}

}  // namespace
}  // namespace verbena::rsocket

using namespace verbena::rsocket;

VERBENA_EXPORT int rsocket(int domain, int type, int protocol) {
  return answered([&] { return make_socket(domain, type, protocol); });
}

VERBENA_EXPORT int rbind(int number, const sockaddr* address, socklen_t length) {
  return on(number, [&](Socket& socket) { return socket.bind(address, length); });
}

VERBENA_EXPORT int rlisten(int number, int backlog) {
  return on(number, [&](Socket& socket) { return socket.listen(backlog); });
}

VERBENA_EXPORT int raccept(int number, sockaddr* address, socklen_t* length) {
  return on(number, [&](Socket& socket) { return accept_from(socket, address, length); });
}

VERBENA_EXPORT int rconnect(int number, const sockaddr* address, socklen_t length) {
  return on(number, [&](Socket& socket) { return connect_to(socket, address, length); });
}

VERBENA_EXPORT int rshutdown(int number, int how) {
  return on(number, [&](Socket& socket) { return socket.shutdown(how); });
}

VERBENA_EXPORT int rclose(int number) {
  return answered([&] {
    const Held socket = Registry::of_process().remove(number);
    if (!socket) return -EBADF;
    socket->close();
    return 0;
  });
}

VERBENA_EXPORT ssize_t rrecv(int number, void* buffer, size_t length, int flags) {
  const iovec piece = one_piece(buffer, length);
  return receive_into(number, &piece, 1, flags);
}

VERBENA_EXPORT ssize_t rrecvfrom(int number, void* buffer, size_t length, int flags, sockaddr* from,
                                 socklen_t* from_length) {
  const iovec piece = one_piece(buffer, length);
  return receive_into(number, &piece, 1, flags, from, from_length);
}

VERBENA_EXPORT ssize_t rrecvmsg(int number, msghdr* message, int flags) {
  if (message->msg_control != nullptr && message->msg_controllen != 0) {
    message->msg_controllen = 0;  // there never is any
  }
  message->msg_flags = 0;
  auto* const from = static_cast<sockaddr*>(message->msg_name);
  socklen_t* const from_length = from != nullptr ? &message->msg_namelen : nullptr;
  return on(number, [&](Socket& socket) -> ssize_t {
    int error = check(message->msg_iov, message->msg_iovlen, EMSGSIZE);
    if (error == 0) error = check_source(flags);
    if (error != 0) return error;
    Pieces into(message->msg_iov, message->msg_iovlen);
    const auto room = static_cast<ssize_t>(into.left());
    if (socket.type() != SOCK_DGRAM) return socket.receive(into, flags, from, from_length);
    const ssize_t whole = socket.receive(into, flags | MSG_TRUNC, from, from_length);
    if (whole <= room) return whole;
    message->msg_flags = MSG_TRUNC;
    return (flags & MSG_TRUNC) != 0 ? whole : room;
  });
}

VERBENA_EXPORT ssize_t rread(int number, void* buffer, size_t length) {
  return rrecv(number, buffer, length, 0);
}

VERBENA_EXPORT ssize_t rreadv(int number, const iovec* pieces, int count) {
  return receive_into(number, pieces, static_cast<size_t>(count), 0);
}

VERBENA_EXPORT ssize_t rsend(int number, const void* buffer, size_t length, int flags) {
  const iovec piece = one_piece(buffer, length);
  return send_from(number, &piece, 1, flags);
}

VERBENA_EXPORT ssize_t rsendto(int number, const void* buffer, size_t length, int flags,
                               const sockaddr* to, socklen_t to_length) {
  const iovec piece = one_piece(buffer, length);
  return send_from(number, &piece, 1, flags, EINVAL, to, to_length);
}

VERBENA_EXPORT ssize_t rsendmsg(int number, const msghdr* message, int flags) {
  if (message->msg_control != nullptr && message->msg_controllen != 0) {
    errno = EOPNOTSUPP;
    return -1;
  }
  return send_from(number, message->msg_iov, message->msg_iovlen, flags, EMSGSIZE,
                   static_cast<const sockaddr*>(message->msg_name), message->msg_namelen);
}

VERBENA_EXPORT ssize_t rwrite(int number, const void* buffer, size_t length) {
  return rsend(number, buffer, length, 0);
}

VERBENA_EXPORT ssize_t rwritev(int number, const iovec* pieces, int count) {
  return send_from(number, pieces, static_cast<size_t>(count), 0);
}

VERBENA_EXPORT int rpoll(pollfd* fds, nfds_t count, int timeout_ms) {
  return answered([&] {
    const auto until =
        timeout_ms < 0 ? std::nullopt : deadline_in(std::chrono::milliseconds(timeout_ms));
    return poll_any({fds, count}, until);
  });
}

VERBENA_EXPORT int rselect(int count, fd_set* reads, fd_set* writes, fd_set* exceptions,
                           timeval* timeout) {
  return answered([&] { return select_any(count, reads, writes, exceptions, timeout); });
}

VERBENA_EXPORT int rgetpeername(int number, sockaddr* address, socklen_t* length) {
  return on(number, [&](Socket& socket) { return socket.peer_name(address, length); });
}

VERBENA_EXPORT int rgetsockname(int number, sockaddr* address, socklen_t* length) {
  return on(number, [&](Socket& socket) { return socket.own_name(address, length); });
}

VERBENA_EXPORT int rsetsockopt(int number, int level, int name, const void* value,
                               socklen_t length) {
  return on(number, [&](Socket& socket) { return socket.set_option(level, name, value, length); });
}

VERBENA_EXPORT int rgetsockopt(int number, int level, int name, void* value, socklen_t* length) {
  return on(number, [&](Socket& socket) { return socket.get_option(level, name, value, length); });
}

VERBENA_EXPORT int rfcntl(int number, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  const long argument = va_arg(arguments, long);
  va_end(arguments);
  return on(number, [&](Socket& socket) { return control(socket, command, argument); });
}

VERBENA_EXPORT off_t riomap(int number, void* buffer, size_t length, int protection, int,
                            off_t offset) {
  return on(number, [&](Socket& socket) -> int64_t {
    return socket.map(buffer, length, protection, offset);
  });
}

VERBENA_EXPORT int riounmap(int number, void* buffer, size_t length) {
  return on(number, [&](Socket& socket) { return socket.unmap(buffer, length); });
}

VERBENA_EXPORT size_t riowrite(int number, const void* buffer, size_t length, off_t offset,
                               int flags) {
  const iovec piece = one_piece(buffer, length);
  return static_cast<size_t>(on(number, [&](Socket& socket) -> ssize_t {
    Pieces from(&piece, 1);
    return socket.write_mapped(from, offset, flags);
  }));
}
