// SPDX-License-Identifier: Apache-2.0
#include "preload/shown.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <memory>
#include <mutex>
#include <string_view>

#include <fcntl.h>
#include <linux/limits.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "device/gid_table.h"

namespace verbena::preload {
namespace {

using identity::Tree;
using identity::TreeNode;

// How the memory that stands for a directory is named: the kernel shows it in /proc/self/fd.
constexpr std::string_view kDirectoryMark = "verbena:";
constexpr std::string_view kMemoryPrefix = "/memfd:verbena:";
constexpr std::string_view kMemorySuffix = " (deleted)";

// Set by the first directory that is opened: until then no descriptor need be looked at.
std::atomic<bool> directory_was_opened = false;

struct State {
  std::mutex mutex;
  device::GidTable gids{identity::settings().gids};
  Tree tree;
  time_t made = 0;  // in seconds of the monotonic clock; 0: never
  time_t time = 0;  // of day, when first made: what stat() shows
};

State& state() {
  // Leaked: programs open files in their exit handlers. Held around fork, so that a child finds it
  // free and whole.
  static auto* const kState = [] {
    ::pthread_atfork([] { state().mutex.lock(); }, [] { state().mutex.unlock(); },
                     [] { state().mutex.unlock(); });
    return new State;
  }();
  return *kState;
}

// The tree, made anew if it is old; under the lock.
[[nodiscard]] const Tree& current(State& of) {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  if (of.made == 0 || now.tv_sec - of.made > 1) {
    if (of.time == 0) of.time = ::time(nullptr);
    if (of.gids.refresh() || of.made == 0) of.tree = make_tree(identity::settings(), of.gids);
    of.made = std::max<time_t>(now.tv_sec, 1);
  }
  return of.tree;
}

[[nodiscard]] bool is_at_or_under(std::string_view path, std::string_view root) {
  return path.starts_with(root) && (path.size() == root.size() || path[root.size()] == '/');
}

[[nodiscard]] bool is_ours(std::string_view path) {
  const auto under = [&](std::string_view root) { return is_at_or_under(path, root); };
  return std::ranges::any_of(identity::kShownRoots, under) ||
         std::ranges::any_of(identity::kHiddenRoots, under);
}

// By the text alone: what we show has no symbolic links, and what leads to it in /sys and /dev has
// none either.
[[nodiscard]] std::string without_dots(std::string_view path) {
  std::string plain;
  while (!path.empty()) {
    const size_t end = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, end);
    path.remove_prefix(std::min(end + 1, path.size()));
    if (part.empty() || part == ".") continue;
    if (part == "..") {
      plain.erase(std::min(plain.rfind('/'), plain.size()));
    } else {
      plain += '/';
      plain += part;
    }
  }
  return plain;
}

[[nodiscard]] int fail_with(int error) {
  errno = error;
  return -1;
}

[[nodiscard]] int make_memory(const std::string& name, const std::string& content, int flags) {
  const unsigned close_on_exec = (flags & O_CLOEXEC) != 0 ? MFD_CLOEXEC : 0;
  const int fd = ::memfd_create(name.c_str(), MFD_ALLOW_SEALING | close_on_exec);
  if (fd < 0) return -1;
  // Small enough to be taken in one piece.
  const auto size = static_cast<ssize_t>(content.size());
  if (::pwrite(fd, content.data(), content.size(), 0) != size) {
    ::close(fd);
    return fail_with(EIO);
  }
  ::fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL);
  return fd;
}

[[nodiscard]] ino_t number_of(std::string_view path) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char letter : path) hash = (hash ^ static_cast<uint8_t>(letter)) * 0x100000001b3;
  return hash;
}

}  // namespace

std::optional<std::string> directory_of(int fd) {
  if (fd < 0 || !directory_was_opened.load(std::memory_order_relaxed)) return std::nullopt;
  const int saved = errno;
  std::array<char, 32> link;
  std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", fd);
  std::array<char, PATH_MAX> target;
  // The kernel's, for readlink() is one of ours.
  const long length =
      ::syscall(SYS_readlinkat, AT_FDCWD, link.data(), target.data(), target.size());
  errno = saved;
  if (length <= 0) return std::nullopt;
  std::string_view name(target.data(), static_cast<size_t>(length));
  if (!name.starts_with(kMemoryPrefix) || !name.ends_with(kMemorySuffix)) return std::nullopt;
  name.remove_prefix(kMemoryPrefix.size());
  name.remove_suffix(kMemorySuffix.size());
  if (!is_ours(name)) return std::nullopt;
  return std::string(name);
}

std::optional<std::string> ours(int directory, const char* path) {
  if (path == nullptr || path[0] == 0) return std::nullopt;
  std::string whole;
  if (path[0] == '/') {
    if (std::strstr(path, "/infiniband") == nullptr) return std::nullopt;
    whole = without_dots(path);
  } else if (directory == AT_FDCWD) {
    if (std::strstr(path, "infiniband") == nullptr) return std::nullopt;
    std::array<char, PATH_MAX> current_directory;
    if (::syscall(SYS_getcwd, current_directory.data(), current_directory.size()) <= 0) {
      return std::nullopt;
    }
    whole = without_dots(std::string(current_directory.data()) + '/' + path);
  } else {
    const auto from = directory_of(directory);
    if (!from) return std::nullopt;
    whole = without_dots(*from + '/' + path);
  }
  if (!is_ours(whole)) return std::nullopt;
  return whole;
}

std::optional<TreeNode> look_up(const std::string& path) {
  State& shared = state();
  const std::lock_guard lock(shared.mutex);
  const TreeNode* const node = current(shared).find(path);
  if (node == nullptr) return std::nullopt;
  return *node;
}

std::vector<std::string> names_in(const std::string& directory) {
  State& shared = state();
  const std::lock_guard lock(shared.mutex);
  return current(shared).names_in(directory);
}

int open_shown(const std::string& path, int flags) {
  const auto node = look_up(path);
  if (!node) return fail_with((flags & O_CREAT) != 0 ? EACCES : ENOENT);
  if (node->type != TreeNode::Type::kDirectory && (flags & O_DIRECTORY) != 0) {
    return fail_with(ENOTDIR);
  }
  const bool to_write = (flags & O_ACCMODE) != O_RDONLY;
  switch (node->type) {
    case TreeNode::Type::kDevice:
      return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, "/dev/null", flags & ~O_CREAT, 0));
    case TreeNode::Type::kDirectory: {
      if (to_write) return fail_with(EISDIR);
      directory_was_opened.store(true, std::memory_order_relaxed);
      return make_memory(std::string(kDirectoryMark) + path, "", flags);
    }
    case TreeNode::Type::kFile: break;
  }
  if (to_write) return fail_with(EACCES);
  return make_memory(path, node->content, flags);
}

int stat_shown(const std::string& path, struct stat& out) {
  const auto node = look_up(path);
  if (!node) return fail_with(ENOENT);
  out = {};
  out.st_dev = makedev(0, 0xfffff);  // no file system's
  out.st_ino = number_of(path);
  out.st_nlink = 1;
  out.st_blksize = 4096;
  switch (node->type) {
    case TreeNode::Type::kDirectory: out.st_mode = S_IFDIR | 0755; break;
    case TreeNode::Type::kFile:
      out.st_mode = S_IFREG | 0444;
      out.st_size = static_cast<off_t>(node->content.size());
      break;
    case TreeNode::Type::kDevice:
      out.st_mode = S_IFCHR | 0666;
      out.st_rdev = makedev(1, 3);
      break;
  }
  out.st_atim.tv_sec = out.st_mtim.tv_sec = out.st_ctim.tv_sec = state().time;
  return 0;
}

int access_shown(const std::string& path, int mode) {
  const auto node = look_up(path);
  if (!node) return fail_with(ENOENT);
  const bool writable = node->type == TreeNode::Type::kDevice;
  const bool executable = node->type == TreeNode::Type::kDirectory;
  if (((mode & W_OK) != 0 && !writable) || ((mode & X_OK) != 0 && !executable)) {
    return fail_with(EACCES);
  }
  return 0;
}

}  // namespace verbena::preload
