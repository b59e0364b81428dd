// SPDX-License-Identifier: Apache-2.0
#include "store_cli/output_file.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
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
    : path_(std::move(other.path_)),
      shown_(std::move(other.shown_)),
      temporary_(std::exchange(other.temporary_, {})),
      fd_(std::move(other.fd_)),
      direct_(other.direct_) {}

OutputFile::~OutputFile() {
  if (!temporary_.empty()) ::unlink(temporary_.c_str());
}

std::string OutputFile::because(const char* what) const {
  return fmt::format("{}: {}: {}", shown_, what, std::strerror(errno));
}

std::string OutputFile::name_beside() const {
  const fs::path path(path_);
  // As long a part of the name as leaves the new one valid.
  const std::string start = path.filename().string().substr(0, 200);
  return (path.parent_path() / fmt::format(".{}.verbena-{}", start, ::getpid())).string();
}

Result<OutputFile, std::string> OutputFile::open(const std::string& path, uint64_t size) {
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
  // Where a link points, the file is replaced, not the link.
  std::error_code error;
  const fs::path target = fs::weakly_canonical(path, error);
  file.path_ = error ? fs::absolute(path).string() : target.string();

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
  if (const auto begun = file.begin(mode); !begun) return fail(begun.error());
  if (size > 0 &&
      ::fallocate(file.fd_.get(), FALLOC_FL_KEEP_SIZE, 0, static_cast<off_t>(size)) != 0 &&
      (errno == ENOSPC || errno == EFBIG || errno == EDQUOT)) {
    return fail(file.because("cannot be written"));
  }
  return file;
}

Result<void, std::string> OutputFile::begin(mode_t mode) {
  // Without a name first, where the file system has that: kill -9 then leaves nothing.
  const std::string folder = fs::path(path_).parent_path().string();
  fd_.reset(::open(folder.c_str(), O_TMPFILE | O_WRONLY | O_CLOEXEC, mode));
  if (!fd_.valid()) {
    temporary_ = name_beside();
    ::unlink(temporary_.c_str());  // of a process with our number that was killed
    fd_.reset(::open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode));
  }
  if (!fd_.valid()) {
    temporary_.clear();
    return fail(because("cannot be written"));
  }
  ::fchmod(fd_.get(), mode);
  return {};
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

Result<void, std::string> OutputFile::finish() {
  if (direct_) return {};
  // Otherwise a power cut could leave the name without the bytes.
  if (::fdatasync(fd_.get()) != 0) return fail(because("cannot be written"));
  if (temporary_.empty()) {
    const std::string self = fmt::format("/proc/self/fd/{}", fd_.get());
    std::string name = name_beside();
    ::unlink(name.c_str());
    if (::linkat(AT_FDCWD, self.c_str(), AT_FDCWD, name.c_str(), AT_SYMLINK_FOLLOW) != 0) {
      return fail(because("cannot be renamed"));
    }
    temporary_ = std::move(name);
  }
  if (::rename(temporary_.c_str(), path_.c_str()) != 0) {
    return fail(because("cannot be renamed"));
  }
  temporary_.clear();
  return {};
}

}  // namespace verbena::store_cli
