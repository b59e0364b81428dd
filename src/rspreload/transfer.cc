// SPDX-License-Identifier: Apache-2.0
// Bytes in and out.
#include <algorithm>
#include <array>
#include <cerrno>

#include <rdma/rsocket.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/c_interface.h"
#include "base/next_function.h"
#include "rspreload/epoll.h"
#include "rspreload/table.h"
#include "rspreload/turning.h"

namespace verbena::rspreload {
namespace {

// `call` with the rsocket that carries the descriptor's data, or `otherwise`.
template <typename Call, typename Otherwise>
[[nodiscard]] ssize_t carried(int fd, Call call, Otherwise otherwise) {
  const HeldEntry entry = find(fd);
  const int socket = carrier(fd, entry);
  if (socket < 0) return otherwise();
  const ssize_t outcome = call(socket);
  used(*entry);
  return outcome;
}

// As sendfile(): from `*offset`, which goes on by what was sent, or from where the file stands.
template <typename Offset>
[[nodiscard]] ssize_t send_file(int socket, int file, Offset* offset, size_t count) {
  std::array<char, 65536> buffer;
  off_t at = offset != nullptr ? static_cast<off_t>(*offset) : ::lseek(file, 0, SEEK_CUR);
  if (at < 0) return -1;
  size_t sent = 0;
  ssize_t outcome = 0;
  while (sent < count) {
    outcome = ::pread(file, buffer.data(), std::min(buffer.size(), count - sent), at);
    if (outcome <= 0) break;
    outcome = rsend(socket, buffer.data(), static_cast<size_t>(outcome), 0);
    if (outcome <= 0) break;
    sent += static_cast<size_t>(outcome);
    at += outcome;
  }
  if (offset != nullptr) {
    *offset = static_cast<Offset>(at);
  } else if (::lseek(file, at, SEEK_SET) < 0) {
    return -1;
  }
  return sent != 0 ? static_cast<ssize_t>(sent) : outcome;
}

}  // namespace
}  // namespace verbena::rspreload

using namespace verbena::rspreload;

// What the headers make of calls under _FORTIFY_SOURCE.
// NOLINTBEGIN(readability-identifier-naming): as the C library names them
extern "C" ssize_t __read_chk(int, void*, size_t, size_t);
extern "C" ssize_t __recv_chk(int, void*, size_t, size_t, int);
extern "C" ssize_t __recvfrom_chk(int, void*, size_t, size_t, int, sockaddr*, socklen_t*);
// NOLINTEND(readability-identifier-naming)

VERBENA_EXPORT ssize_t read(int fd, void* buffer, size_t length) {
  return carried(
      fd, [&](int socket) { return rread(socket, buffer, length); },
      [&] { return NEXT(read)(fd, buffer, length); });
}

VERBENA_EXPORT ssize_t __read_chk(int fd, void* buffer, size_t length, size_t room) {
  if (length > room) return NEXT(__read_chk)(fd, buffer, length, room);  // does not return
  return read(fd, buffer, length);
}

VERBENA_EXPORT ssize_t readv(int fd, const iovec* pieces, int count) {
  return carried(
      fd, [&](int socket) { return rreadv(socket, pieces, count); },
      [&] { return NEXT(readv)(fd, pieces, count); });
}

VERBENA_EXPORT ssize_t recv(int fd, void* buffer, size_t length, int flags) {
  return carried(
      fd, [&](int socket) { return rrecv(socket, buffer, length, flags); },
      [&] { return NEXT(recv)(fd, buffer, length, flags); });
}

VERBENA_EXPORT ssize_t __recv_chk(int fd, void* buffer, size_t length, size_t room, int flags) {
  if (length > room) return NEXT(__recv_chk)(fd, buffer, length, room, flags);
  return recv(fd, buffer, length, flags);
}

VERBENA_EXPORT ssize_t recvfrom(int fd, void* buffer, size_t length, int flags, sockaddr* from,
                                socklen_t* from_length) {
  return carried(
      fd, [&](int socket) { return rrecvfrom(socket, buffer, length, flags, from, from_length); },
      [&] { return NEXT(recvfrom)(fd, buffer, length, flags, from, from_length); });
}

VERBENA_EXPORT ssize_t __recvfrom_chk(int fd, void* buffer, size_t length, size_t room, int flags,
                                      sockaddr* from, socklen_t* from_length) {
  if (length > room) {
    return NEXT(__recvfrom_chk)(fd, buffer, length, room, flags, from, from_length);
  }
  return recvfrom(fd, buffer, length, flags, from, from_length);
}

VERBENA_EXPORT ssize_t recvmsg(int fd, msghdr* message, int flags) {
  return carried(
      fd, [&](int socket) { return rrecvmsg(socket, message, flags); },
      [&] { return NEXT(recvmsg)(fd, message, flags); });
}

VERBENA_EXPORT ssize_t write(int fd, const void* buffer, size_t length) {
  return carried(
      fd, [&](int socket) { return rwrite(socket, buffer, length); },
      [&] { return NEXT(write)(fd, buffer, length); });
}

VERBENA_EXPORT ssize_t writev(int fd, const iovec* pieces, int count) {
  return carried(
      fd, [&](int socket) { return rwritev(socket, pieces, count); },
      [&] { return NEXT(writev)(fd, pieces, count); });
}

VERBENA_EXPORT ssize_t send(int fd, const void* buffer, size_t length, int flags) {
  return carried(
      fd, [&](int socket) { return rsend(socket, buffer, length, flags); },
      [&] { return NEXT(send)(fd, buffer, length, flags); });
}

VERBENA_EXPORT ssize_t sendto(int fd, const void* buffer, size_t length, int flags,
                              const sockaddr* to, socklen_t to_length) {
  return carried(
      fd, [&](int socket) { return rsendto(socket, buffer, length, flags, to, to_length); },
      [&] { return NEXT(sendto)(fd, buffer, length, flags, to, to_length); });
}

VERBENA_EXPORT ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  return carried(
      fd, [&](int socket) { return rsendmsg(socket, message, flags); },
      [&] { return NEXT(sendmsg)(fd, message, flags); });
}

VERBENA_EXPORT ssize_t sendfile(int fd, int file, off_t* offset, size_t count) noexcept {
  return carried(
      fd, [&](int socket) { return send_file(socket, file, offset, count); },
      [&] { return NEXT(sendfile)(fd, file, offset, count); });
}

VERBENA_EXPORT ssize_t sendfile64(int fd, int file, off64_t* offset, size_t count) noexcept {
  return carried(
      fd, [&](int socket) { return send_file(socket, file, offset, count); },
      [&] { return NEXT(sendfile64)(fd, file, offset, count); });
}
