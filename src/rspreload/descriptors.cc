// SPDX-License-Identifier: Apache-2.0
// Closing and copying descriptors, and what is said of them with fcntl() and ioctl().
#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>

#include <fcntl.h>
#include <linux/close_range.h>
#include <rdma/rsocket.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/c_interface.h"
#include "base/next_function.h"
#include "rspreload/epoll.h"
#include "rspreload/table.h"
#include "rspreload/turning.h"

namespace verbena::rspreload {
namespace {

// `made` is a copy of the descriptor of `entry`, if there is one.
[[nodiscard]] int copied(const HeldEntry& entry, int made) {
  if (made < 0 || !entry) return made;
  entry->hold();
  if (insert(made, entry.get())) return made;
  (void)HeldEntry(entry.get());
  (void)NEXT(close)(made);
  errno = ENOMEM;
  return -1;
}

// The descriptors are closed, or are about to be.
void forget_all(unsigned first, unsigned last) {
  remove_all(first, last);
  forget_epoll(first, last);
}
void forget(int fd) {
  if (fd >= 0) forget_all(static_cast<unsigned>(fd), static_cast<unsigned>(fd));
}

// The same, where `made` may have stood for something else, which was closed if there is a copy.
[[nodiscard]] int put_over(const HeldEntry& entry, int made) {
  forget(made);
  return copied(entry, made);
}

// A connection that waits for its fork goes on as what it is in both copies.
[[nodiscard]] HeldEntry find_settled(int fd) {
  HeldEntry entry = find(fd);
  (void)carrier(fd, entry);
  return entry;
}

template <typename Next>
[[nodiscard]] int control(int fd, int command, long argument, Next next) {
  switch (command) {
    case F_DUPFD:
    case F_DUPFD_CLOEXEC: {
      const HeldEntry entry = find_settled(fd);
      return copied(entry, next(fd, command, argument));
    }
    case F_GETFL: {
      const HeldEntry entry = find(fd);
      if (entry && entry->socket() >= 0) return rfcntl(entry->socket(), F_GETFL);
      return next(fd, command, argument);
    }
    case F_SETFL: {
      const HeldEntry entry = find(fd);
      if (entry && entry->socket() >= 0) (void)rfcntl(entry->socket(), F_SETFL, argument);
      return next(fd, command, argument);
    }
    default: return next(fd, command, argument);
  }
}

// How much can be read at once, up to a bound.
[[nodiscard]] int readable_bytes(int socket) {
  std::array<char, 65536> seen;
  const ssize_t length = rrecv(socket, seen.data(), seen.size(), MSG_PEEK | MSG_DONTWAIT);
  return length > 0 ? static_cast<int>(length) : 0;
}

}  // namespace
}  // namespace verbena::rspreload

using namespace verbena::rspreload;

VERBENA_EXPORT int close(int fd) {
  forget(fd);
  return NEXT(close)(fd);
}

// The C library closes these descriptors by ways of its own.
VERBENA_EXPORT int fclose(FILE* stream) {
  const int error = errno;
  forget(::fileno(stream));
  errno = error;
  return NEXT(fclose)(stream);
}

VERBENA_EXPORT int close_range(unsigned first, unsigned last, int flags) noexcept {
  constexpr int kKnown = CLOSE_RANGE_CLOEXEC | CLOSE_RANGE_UNSHARE;
  const bool closes = (flags & CLOSE_RANGE_CLOEXEC) == 0 && (flags & ~kKnown) == 0;
  if (closes && first <= last) forget_all(first, last);
  return NEXT(close_range)(first, last, flags);
}

VERBENA_EXPORT void closefrom(int first) noexcept {
  forget_all(static_cast<unsigned>(std::max(first, 0)), UINT_MAX);
  NEXT(closefrom)(first);
}

VERBENA_EXPORT int dup(int fd) noexcept {
  const HeldEntry entry = find_settled(fd);
  return copied(entry, NEXT(dup)(fd));
}

VERBENA_EXPORT int dup2(int fd, int wanted) noexcept {
  if (fd == wanted) return NEXT(dup2)(fd, wanted);
  const HeldEntry entry = find_settled(fd);
  return put_over(entry, NEXT(dup2)(fd, wanted));
}

VERBENA_EXPORT int dup3(int fd, int wanted, int flags) noexcept {
  if (fd == wanted) return NEXT(dup3)(fd, wanted, flags);
  const HeldEntry entry = find_settled(fd);
  return put_over(entry, NEXT(dup3)(fd, wanted, flags));
}

#define ARGUMENT_AFTER(last)                     \
  va_list arguments;                             \
  va_start(arguments, last);                     \
  const long argument = va_arg(arguments, long); \
  va_end(arguments)

VERBENA_EXPORT int fcntl(int fd, int command, ...) {
  ARGUMENT_AFTER(command);
  return control(fd, command, argument, NEXT(fcntl));
}

VERBENA_EXPORT int fcntl64(int fd, int command, ...) {
  ARGUMENT_AFTER(command);
  return control(fd, command, argument, NEXT(fcntl64));
}

VERBENA_EXPORT int ioctl(int fd, unsigned long command, ...) noexcept {
  ARGUMENT_AFTER(command);
  const HeldEntry entry = command == FIONBIO || command == FIONREAD ? find(fd) : HeldEntry();
  if (entry && entry->socket() >= 0) {
    int& value = *reinterpret_cast<int*>(argument);
    if (command == FIONREAD) {
      value = readable_bytes(entry->socket());
      return 0;
    }
    (void)rfcntl(entry->socket(), F_SETFL, long{value != 0 ? O_NONBLOCK : 0});
  }
  return NEXT(ioctl)(fd, command, argument);
}
