// SPDX-License-Identifier: Apache-2.0
#include "backend/files.h"

#include <cerrno>
#include <cstdio>

#include <fcntl.h>
#include <linux/fs.h>
#include <sys/ioctl.h>
#include <unistd.h>

namespace verbena::backend {
namespace {

template <typename Number>
[[nodiscard]] Number or_errno(Number result) {
  return result < 0 ? static_cast<Number>(-errno) : result;
}

}  // namespace

int Files::open(int folder, const std::string& name, int flags, mode_t mode) {
  return or_errno(openat(folder, name.c_str(), flags | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY, mode));
}

int Files::make_folder(int folder, const std::string& name) {
  return or_errno(mkdirat(folder, name.c_str(), 0777));
}

int Files::rename(int from, const std::string& old_name, int to, const std::string& new_name,
                  unsigned flags) {
  return or_errno(renameat2(from, old_name.c_str(), to, new_name.c_str(), flags));
}

int Files::unlink(int folder, const std::string& name) {
  return or_errno(unlinkat(folder, name.c_str(), 0));
}

int Files::remove_folder(int folder, const std::string& name) {
  return or_errno(unlinkat(folder, name.c_str(), AT_REMOVEDIR));
}

ssize_t Files::read(int fd, std::span<const iovec> to, uint64_t offset) {
  return or_errno(preadv(fd, to.data(), static_cast<int>(to.size()), static_cast<off_t>(offset)));
}

ssize_t Files::write(int fd, std::span<const iovec> from, uint64_t offset) {
  return or_errno(
      pwritev(fd, from.data(), static_cast<int>(from.size()), static_cast<off_t>(offset)));
}

ssize_t Files::copy(int from, int to, uint64_t offset, size_t bytes) {
  auto from_offset = static_cast<off_t>(offset);
  auto to_offset = static_cast<off_t>(offset);
  return or_errno(copy_file_range(from, &from_offset, to, &to_offset, bytes, 0));
}

int Files::clone(int from, int to) { return or_errno(ioctl(to, FICLONE, from)); }

int Files::punch(int fd, uint64_t offset, uint64_t bytes) {
  return or_errno(fallocate(fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                            static_cast<off_t>(offset), static_cast<off_t>(bytes)));
}

int Files::truncate(int fd, uint64_t bytes) {
  return or_errno(ftruncate(fd, static_cast<off_t>(bytes)));
}

int Files::set_mode(int fd, mode_t mode) { return or_errno(fchmod(fd, mode)); }

int Files::set_owner(int fd, uid_t user, gid_t group) { return or_errno(fchown(fd, user, group)); }

int Files::set_modified(int fd, int64_t ns) {
  constexpr int64_t kSecond = 1'000'000'000;
  const timespec modified{.tv_sec = static_cast<time_t>(ns / kSecond),
                          .tv_nsec = static_cast<long>(ns % kSecond)};
  const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT}, modified};
  return or_errno(futimens(fd, times));
}

int Files::sync(int fd) { return or_errno(fsync(fd)); }

void Files::begin_sync(int fd, uint64_t offset, uint64_t bytes) {
  static_cast<void>(sync_file_range(fd, static_cast<off_t>(offset), static_cast<off_t>(bytes),
                                    SYNC_FILE_RANGE_WRITE));
}

void Files::begin_read(int fd, uint64_t offset, uint64_t bytes) {
  static_cast<void>(posix_fadvise(fd, static_cast<off_t>(offset), static_cast<off_t>(bytes),
                                  POSIX_FADV_WILLNEED));
}

int Files::status(int folder, const std::string& name, struct stat& status) {
  return or_errno(fstatat(folder, name.c_str(), &status, AT_SYMLINK_NOFOLLOW));
}

int Files::status(int fd, struct stat& status) { return or_errno(fstat(fd, &status)); }

Files& system_files() {
  static Files files;
  return files;
}

}  // namespace verbena::backend
