// SPDX-License-Identifier: Apache-2.0
#include "store/folder_lock.h"

#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

namespace verbena::store {
namespace {

// Whoever writes notes its process id, for others to read. It may be out of date.
std::string owner_of(int file) {
  std::array<char, 32> text{};
  const ssize_t n = pread(file, text.data(), text.size() - 1, 0);
  const std::string owner(text.data(), n > 0 ? static_cast<size_t>(n) : 0);
  pid_t process = 0;
  const auto parsed = std::from_chars(owner.data(), owner.data() + owner.size(), process);
  // It may be long gone, and those that have the store read it.
  if (parsed.ec != std::errc{} || process <= 0 || (kill(process, 0) != 0 && errno == ESRCH)) {
    return "";
  }
  return fmt::format(" (process {})", process);
}

// The owner of a store can go on using it after root has.
void give_to_owner_of(const std::string& folder, int file) {
  struct stat its{};
  struct stat lock{};
  if (geteuid() != 0 || stat(folder.c_str(), &its) != 0 || fstat(file, &lock) != 0) return;
  if (lock.st_uid == 0 && its.st_uid != 0) {
    static_cast<void>(!fchown(file, its.st_uid, its.st_gid));  // a lock of root's locks as well
  }
}

}  // namespace

Result<FolderLock> FolderLock::take(const std::string& folder, Mode mode) {
  const std::string path = folder + "/lock";
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  // Somebody who may not write can still read, and so can all on a file system that is read-only.
  if (!file.valid() && mode == Mode::kRead && (errno == EACCES || errno == EROFS)) {
    file = UniqueFd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK));
    if (!file.valid() && errno == ENOENT) return FolderLock(UniqueFd());
  }
  if (!file.valid()) {
    return fail(Error{Code::kIo, fmt::format("{}: {}", path, std::strerror(errno)), {}});
  }
  give_to_owner_of(folder, file.get());
  if (flock(file.get(), (mode == Mode::kWrite ? LOCK_EX : LOCK_SH) | LOCK_NB) != 0) {
    if (errno != EWOULDBLOCK) {
      return fail(Error{Code::kIo, fmt::format("{}: {}", path, std::strerror(errno)), {}});
    }
    return fail(Error{
        Code::kInUse,
        fmt::format("the store in {} is in use by another process{}", folder, owner_of(file.get())),
        {}});
  }
  if (mode == Mode::kWrite) {
    const std::string pid = std::to_string(getpid()) + "\n";
    if (ftruncate(file.get(), 0) == 0) {
      static_cast<void>(!pwrite(file.get(), pid.data(), pid.size(), 0));
    }
  }
  return FolderLock(std::move(file));
}

void WriterGate::try_hold(const std::string& folder) {
  if (folder_.valid()) return;
  UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (fd.valid() && flock(fd.get(), LOCK_EX | LOCK_NB) == 0) folder_ = std::move(fd);
}

bool WriterGate::held(const std::string& folder) {
  const UniqueFd fd(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  // Gone at once: readers do not hold the gate, or they would keep writers from it.
  return fd.valid() && flock(fd.get(), LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
}

}  // namespace verbena::store
