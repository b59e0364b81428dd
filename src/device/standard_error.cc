// SPDX-License-Identifier: Apache-2.0
#include "device/standard_error.h"

#include <cerrno>
#include <csignal>

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/blocked_signals.h"

namespace verbena::device {
namespace {

constexpr int kFd = STDERR_FILENO;

[[nodiscard]] bool has_room() {
  pollfd ready{kFd, POLLOUT, 0};
  return ::poll(&ready, 1, 0) == 1 && (ready.revents & POLLOUT) != 0;
}

// A daemon that closed it may have its data there; what is written at the end of a file is a log.
[[nodiscard]] bool is_at_its_end(const struct stat& file) {
  return (::fcntl(kFd, F_GETFL) & O_APPEND) != 0 || ::lseek(kFd, 0, SEEK_CUR) == file.st_size;
}

[[nodiscard]] bool is_local_stream() {
  int domain = 0;
  int type = 0;
  socklen_t length = sizeof domain;
  return ::getsockopt(kFd, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 && domain == AF_UNIX &&
         ::getsockopt(kFd, SOL_SOCKET, SO_TYPE, &type, &length) == 0 && type == SOCK_STREAM;
}

// At load, before the program has a chance to use the descriptor for something else.
const StandardError* process_error = nullptr;
[[gnu::constructor]] void remember_standard_error() { (void)StandardError::of_process(); }

}  // namespace

const StandardError& StandardError::of_process() {
  if (process_error == nullptr) process_error = new StandardError;
  return *process_error;
}

StandardError::StandardError() {
  const int error = errno;
  struct stat file{};
  if (::fstat(kFd, &file) == 0) {
    known_ = true;
    device_ = file.st_dev;
    inode_ = file.st_ino;
    special_ = file.st_rdev;
  }
  errno = error;
}

bool StandardError::write(std::string_view line) const {
  const int error = errno;
  const BlockedSignals blocked{SIGPIPE, SIGTTOU, SIGXFSZ};
  struct stat file{};
  bool written = false;
  if (known_ && ::fstat(kFd, &file) == 0 && file.st_dev == device_ && file.st_ino == inode_ &&
      file.st_rdev == special_ && (::fcntl(kFd, F_GETFL) & O_ACCMODE) != O_RDONLY) {
    const auto bytes = static_cast<ssize_t>(line.size());
    if (S_ISSOCK(file.st_mode)) {
      written = is_local_stream() && ::send(kFd, line.data(), line.size(), MSG_DONTWAIT) == bytes;
    } else if (S_ISFIFO(file.st_mode) || (S_ISCHR(file.st_mode) && ::isatty(kFd) == 1)) {
      written = has_room() && ::write(kFd, line.data(), line.size()) == bytes;
    } else if (S_ISREG(file.st_mode)) {
      written = is_at_its_end(file) && ::write(kFd, line.data(), line.size()) == bytes;
    }
  }
  errno = error;
  return written;
}

}  // namespace verbena::device
