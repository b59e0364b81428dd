// SPDX-License-Identifier: Apache-2.0
#include "store_cli/output_file.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include "store_cli/interrupts.h"

namespace verbena::store_cli {
namespace {

namespace fs = std::filesystem;

[[nodiscard]] mode_t mode_of_new_files() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666 & ~mask;
}

}  // namespace

OutputFile::OutputFile(OutputFile&& other) noexcept
    : folder_(std::move(other.folder_)),
      name_(std::move(other.name_)),
      shown_(std::move(other.shown_)),
      temporary_(std::exchange(other.temporary_, {})),
      fd_(std::move(other.fd_)),
      written_(other.written_),
      direct_(other.direct_) {}

OutputFile::~OutputFile() {
  if (!temporary_.empty()) ::unlinkat(folder_.get(), temporary_.c_str(), 0);
}

std::string OutputFile::because(const char* what) const {
  return fmt::format("{}: {}: {}", shown_, what, std::strerror(errno));
}

std::string OutputFile::name_beside() const {
  // As long a part of the name as leaves the new one valid.
  return fmt::format(".{}.verbena-{}", name_.substr(0, 200), ::getpid());
}

Result<OutputFile, std::string> OutputFile::open(const std::string& path, Extent extent) {
  OutputFile file;
  file.shown_ = path == "-" ? "standard output" : path;
  if (path == "-") {
    file.direct_ = true;
    file.fd_.reset(::fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3));
    if (!file.fd_.valid() || (::fcntl(file.fd_.get(), F_GETFL) & O_ACCMODE) == O_RDONLY) {
      errno = EBADF;
      return fail(file.because("cannot be written"));
    }
    return file;
  }
  if (path.empty()) return fail(std::string("the file name is empty"));

  struct stat status{};
  mode_t mode = mode_of_new_files();
  if (::stat(path.c_str(), &status) == 0) {
    if (S_ISDIR(status.st_mode)) return fail(path + ": is a directory; give the name of a file");
    if (::access(path.c_str(), W_OK) != 0) return fail(file.because("cannot be written"));
    mode = status.st_mode & 0777;  // the new file is ours: no set-user-ID for what was another's
    file.direct_ = !S_ISREG(status.st_mode);
  } else if (path.ends_with('/')) {
    return fail(path + ": the directory does not exist");
  }
  if (file.direct_) {
    file.fd_.reset(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
    if (!file.fd_.valid()) return fail(file.because("cannot be written"));
    return file;
  }
  // Where a link points, the file is replaced, not the link.
  std::error_code error;
  const fs::path canonical = fs::weakly_canonical(path, error);
  // A name that is new and relative stays so.
  const fs::path target = fs::absolute(error ? fs::path(path) : canonical);
  file.name_ = target.filename().string();
  file.folder_.reset(::open(target.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!file.folder_.valid()) {
    // One that may be written to and not be read.
    file.folder_.reset(::open(target.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  }
  if (!file.folder_.valid()) return fail(file.because("cannot be written"));
  if (const auto begun = file.begin(mode, extent); !begun) return fail(begun.error());
  return file;
}

Result<OutputFile, std::string> OutputFile::open_in(UniqueFd folder, std::string name,
                                                    std::string shown, Extent extent) {
  OutputFile file;
  file.folder_ = std::move(folder);
  file.name_ = std::move(name);
  file.shown_ = std::move(shown);
  struct stat status{};
  mode_t mode = mode_of_new_files();
  if (::fstatat(file.folder_.get(), file.name_.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0) {
    if (S_ISDIR(status.st_mode)) return fail(file.shown_ + ": is a directory");
    if (S_ISREG(status.st_mode)) mode = status.st_mode & 0777;
  }
  if (const auto begun = file.begin(mode, extent); !begun) return fail(begun.error());
  return file;
}

Result<void, std::string> OutputFile::begin(mode_t mode, Extent extent) {
  // Without a name first, where the file system has that: kill -9 then leaves nothing.
  fd_.reset(::openat(folder_.get(), ".", O_TMPFILE | O_WRONLY | O_CLOEXEC, mode));
  if (!fd_.valid()) {
    temporary_ = name_beside();
    // Of a process with our number that was killed.
    ::unlinkat(folder_.get(), temporary_.c_str(), 0);
    fd_.reset(
        ::openat(folder_.get(), temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  }
  if (!fd_.valid()) {
    temporary_.clear();
    return fail(because("cannot be written"));
  }
  ::fchmod(fd_.get(), mode);
  struct statvfs disk{};
  const bool full = extent.data < extent.size
                        ? ::fstatvfs(fd_.get(), &disk) == 0 &&
                              extent.data / std::max<uint64_t>(disk.f_frsize, 1) > disk.f_bavail
                        : extent.size > 0 &&
                              ::fallocate(fd_.get(), FALLOC_FL_KEEP_SIZE, 0,
                                          static_cast<off_t>(extent.size)) != 0 &&
                              (errno == ENOSPC || errno == EFBIG || errno == EDQUOT);
  if (!full) return {};
  if (extent.data < extent.size) errno = ENOSPC;
  return fail(because("cannot be written"));
}

Result<void, std::string> OutputFile::write(std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    // A pipe that is full ends a write that a signal interrupts with what it took before: the next
    // one would wait for ever.
    if (interrupted() != 0) errno = EINTR;
    const ssize_t wrote = interrupted() != 0 ? -1 : ::write(fd_.get(), bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR && interrupted() == 0) continue;
    if (wrote < 0) return fail(because("cannot be written"));
    bytes = bytes.subspan(static_cast<size_t>(wrote));
    written_ += static_cast<uint64_t>(wrote);
  }
  return {};
}

Result<void, std::string> OutputFile::skip(uint64_t zeros) {
  static constexpr std::array<uint8_t, 65536> kZeros{};
  if (!direct_) {
    if (::lseek(fd_.get(), static_cast<off_t>(zeros), SEEK_CUR) < 0) {
      return fail(because("cannot be written"));
    }
    written_ += zeros;
    return {};
  }
  for (; zeros > 0; zeros -= std::min<uint64_t>(zeros, kZeros.size())) {
    const auto bytes = static_cast<size_t>(std::min<uint64_t>(zeros, kZeros.size()));
    if (const auto wrote = write(std::span(kZeros).first(bytes)); !wrote) return wrote;
  }
  return {};
}

Result<void, std::string> OutputFile::finish() {
  if (direct_) return {};
  // Its end may be a hole.
  if (::ftruncate(fd_.get(), static_cast<off_t>(written_)) != 0) {
    return fail(because("cannot be written"));
  }
  // Otherwise a power cut could leave the name without the bytes.
  if (::fdatasync(fd_.get()) != 0) return fail(because("cannot be written"));
  if (temporary_.empty()) {
    const std::string self = fmt::format("/proc/self/fd/{}", fd_.get());
    std::string name = name_beside();
    ::unlinkat(folder_.get(), name.c_str(), 0);
    if (::linkat(AT_FDCWD, self.c_str(), folder_.get(), name.c_str(), AT_SYMLINK_FOLLOW) != 0) {
      return fail(because("cannot be renamed"));
    }
    temporary_ = std::move(name);
  }
  if (::renameat(folder_.get(), temporary_.c_str(), folder_.get(), name_.c_str()) != 0) {
    return fail(because("cannot be renamed"));
  }
  temporary_.clear();
  return {};
}

}  // namespace verbena::store_cli
