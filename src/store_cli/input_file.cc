// SPDX-License-Identifier: Apache-2.0
#include "store_cli/input_file.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "store_cli/interrupts.h"

namespace verbena::store_cli {
namespace {

// A file that has no name, or none any more: a process that is killed leaves nothing.
[[nodiscard]] UniqueFd nameless_file(const std::string& folder) {
  return UniqueFd(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
}
[[nodiscard]] UniqueFd temporary_file(const std::vector<std::string>& folders) {
  const char* const chosen = std::getenv("TMPDIR");
  const std::string temporary = chosen != nullptr && *chosen != '\0' ? chosen : "/tmp";
  std::vector<std::string> places = folders;
  places.insert(chosen != nullptr && *chosen != '\0' ? places.begin() : places.end(), temporary);
  for (const std::string& place : places) {
    if (UniqueFd fd = nameless_file(place); fd.valid()) return fd;
  }
  // Some file systems know only files with names.
  std::string name = temporary + "/verbena-XXXXXX";
  UniqueFd fd(::mkostemp(name.data(), O_CLOEXEC));
  if (fd.valid()) ::unlink(name.c_str());
  return fd;
}

[[nodiscard]] bool write_all(int fd, std::span<const uint8_t> bytes) {
  while (!bytes.empty()) {
    const ssize_t wrote = ::write(fd, bytes.data(), bytes.size());
    if (wrote < 0 && errno == EINTR && interrupted() == 0) continue;
    if (wrote < 0) return false;
    bytes = bytes.subspan(static_cast<size_t>(wrote));
  }
  return true;
}

}  // namespace

std::string InputFile::because(int error) const {
  return fmt::format("{}: cannot be read: {}", shown_, std::strerror(error));
}

Result<InputFile, std::string> InputFile::open(const std::string& path) {
  InputFile input;
  input.shown_ = path == "-" ? "standard input" : path;
  input.fd_.reset(path == "-" ? ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3)
                              : ::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  struct stat status{};
  if (!input.fd_.valid() || ::fstat(input.fd_.get(), &status) != 0)
    return fail(input.because(errno));
  if ((::fcntl(input.fd_.get(), F_GETFL) & O_ACCMODE) == O_WRONLY)
    return fail(input.because(EBADF));
  if (S_ISDIR(status.st_mode)) return fail(input.because(EISDIR));
  input.stream_ = !S_ISREG(status.st_mode);
  if (!input.stream_) {
    // Of the standard input, what the shell has not read yet.
    const off_t at = std::max<off_t>(0, ::lseek(input.fd_.get(), 0, SEEK_CUR));
    input.start_ = static_cast<uint64_t>(at);
    input.size_ = static_cast<uint64_t>(std::max<off_t>(0, status.st_size - at));
    input.holes_ = input.size_ > 0 && status.st_blocks * 512 < status.st_size;
  }
  ::posix_fadvise(input.fd_.get(), 0, 0, POSIX_FADV_SEQUENTIAL);
  return input;
}

Result<size_t, std::string> InputFile::fill_from_file(std::span<uint8_t> room) {
  size_t filled = 0;
  while (filled < room.size() && interrupted() == 0) {
    const ssize_t got = ::read(fd_.get(), room.data() + filled, room.size() - filled);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(because(errno));
    if (got == 0) break;
    filled += static_cast<size_t>(got);
  }
  return filled;
}

Result<size_t, std::string> InputFile::fill(std::span<uint8_t> room) {
  if (!in_memory_) return fill_from_file(room);
  const size_t bytes = std::min(room.size(), memory_.size() - taken_);
  std::copy_n(memory_.begin() + static_cast<ptrdiff_t>(taken_), bytes, room.begin());
  taken_ += bytes;
  return bytes;
}

Result<void, std::string> InputFile::take_in(const std::vector<std::string>& folders,
                                             const std::function<void(uint64_t)>& progress) {
  constexpr size_t kPiece = 64 << 10;  // what a pipe holds: progress is seen
  bool more = true;
  while (more && interrupted() == 0) {
    if (memory_.size() >= kMemory) return spill(folders, progress);
    const size_t before = memory_.size();
    memory_.resize(before + kPiece);
    const ssize_t got = ::read(fd_.get(), memory_.data() + before, kPiece);
    const int error = errno;
    memory_.resize(before + static_cast<size_t>(std::max<ssize_t>(got, 0)));
    if (got < 0 && error != EINTR) return fail(because(error));
    more = got != 0;
    progress(memory_.size());
  }
  in_memory_ = true;
  stream_ = false;
  size_ = memory_.size();
  return {};
}

Result<void, std::string> InputFile::spill(const std::vector<std::string>& folders,
                                           const std::function<void(uint64_t)>& progress) {
  UniqueFd file = temporary_file(folders);
  const auto wrong = [&] {
    return fail(
        fmt::format("{}: a temporary file for it cannot be written: {}; set TMPDIR to a "
                    "directory with enough space",
                    shown_, std::strerror(errno)));
  };
  if (!file.valid()) return wrong();
  uint64_t size = 0;
  for (size_t filled = memory_.size();;) {
    if (!write_all(file.get(), std::span(memory_).first(filled))) return wrong();
    size += filled;
    progress(size);
    if (filled < memory_.size() || interrupted() != 0) break;
    const auto got = fill_from_file(memory_);
    if (!got) return fail(got.error());
    filled = *got;
  }
  memory_ = {};
  if (::lseek(file.get(), 0, SEEK_SET) != 0) return wrong();
  fd_ = std::move(file);
  stream_ = false;
  size_ = size;
  return {};
}

Result<InputFile::Range, std::string> InputFile::next_data(uint64_t at, uint64_t unit) {
  struct stat status{};
  if (::fstat(fd_.get(), &status) != 0) return fail(because(errno));
  const uint64_t whole = static_cast<uint64_t>(status.st_size);
  const uint64_t end = whole > start_ ? whole - start_ : 0;
  const off_t data = ::lseek(fd_.get(), static_cast<off_t>(start_ + at), SEEK_DATA);
  if (data < 0 && errno == ENXIO) return Range{end, end};
  Range range{at, end};  // all is data where the file system does not tell
  if (data >= 0) {
    range.begin = std::max(at, (static_cast<uint64_t>(data) - start_) / unit * unit);
    const off_t hole = ::lseek(fd_.get(), data, SEEK_HOLE);
    if (hole >= 0) {
      const uint64_t units = (static_cast<uint64_t>(hole) - start_ + unit - 1) / unit;
      range.end = std::min(end, units * unit);
    }
  }
  if (::lseek(fd_.get(), static_cast<off_t>(start_ + range.begin), SEEK_SET) < 0) {
    return fail(because(errno));
  }
  return range;
}

}  // namespace verbena::store_cli
