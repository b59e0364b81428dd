// SPDX-License-Identifier: Apache-2.0
#include "store/folder_lock.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <cstring>
#include <string_view>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>

namespace verbena::store {
namespace {

constexpr std::string_view kServerLine = "server ";
constexpr size_t kMaxServerBytes = 300;

struct Owner {
  pid_t process = 0;   // 0: not known
  std::string server;  // empty: it is none
};

[[nodiscard]] bool is_server_address(std::string_view text) {
  return !text.empty() && text.size() <= kMaxServerBytes &&
         std::ranges::all_of(text, [](char letter) { return letter > ' ' && letter <= '~'; });
}

// As noted by the last that wrote: it may be out of date.
[[nodiscard]] Owner noted_in(int file) {
  std::array<char, 400> bytes{};
  const ssize_t n = pread(file, bytes.data(), bytes.size(), 0);
  std::string_view text(bytes.data(), n > 0 ? static_cast<size_t>(n) : 0);
  Owner owner;
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), owner.process);
  if (parsed.ec != std::errc{} || owner.process <= 0) return {};
  text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  const size_t end = text.find('\n');
  if (!text.starts_with(kServerLine) || end == std::string_view::npos) return owner;
  const std::string_view server = text.substr(kServerLine.size(), end - kServerLine.size());
  if (is_server_address(server)) owner.server = server;
  return owner;
}

[[nodiscard]] std::string in_use(const std::string& folder, int file, FolderLock::Mode mode) {
  const Owner owner = noted_in(file);
  // It may be long gone, and those that have the store read it.
  const bool lives = owner.process > 0 && (kill(owner.process, 0) == 0 || errno != ESRCH);
  const std::string process = lives ? fmt::format(" (process {})", owner.process) : "";
  // Readers are let in beside readers: who is not is kept out by the one that wrote this. A server
  // may be in another container, where its process id is not ours.
  const bool written = !owner.server.empty() &&
                       (mode == FolderLock::Mode::kRead || flock(file, LOCK_SH | LOCK_NB) != 0);
  if (!written)
    return fmt::format("the store in {} is in use by another process{}", folder, process);
  return fmt::format("the store in {} is in use by a server{}: use --server {}", folder, process,
                     owner.server);
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

[[nodiscard]] bool note(int file, const std::string& server) {
  const std::string text = fmt::format(
      "{}\n{}", getpid(), server.empty() ? "" : fmt::format("{}{}\n", kServerLine, server));
  return ftruncate(file, 0) == 0 &&
         pwrite(file, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
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
    return fail(Error{Code::kInUse, in_use(folder, file.get(), mode), {}});
  }
  if (mode == Mode::kWrite) static_cast<void>(note(file.get(), ""));
  return FolderLock(std::move(file));
}

FolderLock::FolderLock(FolderLock&& other) noexcept
    : file_(std::move(other.file_)), announced_(std::exchange(other.announced_, false)) {}

FolderLock& FolderLock::operator=(FolderLock&& other) noexcept {
  std::swap(file_, other.file_);
  std::swap(announced_, other.announced_);
  return *this;
}

FolderLock::~FolderLock() {
  if (announced_) static_cast<void>(note(file_.get(), ""));
}

Result<void> FolderLock::announce(const std::string& server) {
  if (!is_server_address(server)) {
    return fail(Error{Code::kInvalid, "invalid address of a server", {}});
  }
  announced_ = true;
  if (note(file_.get(), server)) return {};
  return fail(
      Error{Code::kIo, fmt::format("cannot write the lock file: {}", std::strerror(errno)), {}});
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
