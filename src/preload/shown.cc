// SPDX-License-Identifier: Apache-2.0
#include "preload/shown.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <ctime>
#include <memory>
#include <string_view>

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/blocked_signals.h"
#include "base/mutex.h"
#include "base/unique_fd.h"
#include "device/gid_table.h"
#include "link/port_counters.h"
#include "preload/locate.h"

namespace verbena::preload {
namespace {

using identity::Tree;
using identity::TreeNode;

// How the memory is named that stands for a file or directory: the kernel shows it in
// /proc/self/fd.
constexpr std::string_view kMark = "verbena:";

std::atomic<bool> opened = false;

struct State {
  Mutex mutex;
  device::GidTable gids VERBENA_GUARDED_BY(mutex){identity::settings().gids};
  Tree tree VERBENA_GUARDED_BY(mutex);
  link::PortCounterReader counters VERBENA_GUARDED_BY(mutex);
  // In seconds of the monotonic clock; 0: never.
  time_t made VERBENA_GUARDED_BY(mutex) = 0;
  // Of day, when first made: what stat() shows.
  time_t time VERBENA_GUARDED_BY(mutex) = 0;
};

State& state() {
  // Leaked: programs open files in their exit handlers. Held around fork, so that a child finds it
  // free and whole.
  static auto* const kState = [] {
    const auto unlock = []() VERBENA_RELEASE(state().mutex) { state().mutex.unlock(); };
    ::pthread_atfork([]() VERBENA_ACQUIRE(state().mutex) { state().mutex.lock(); }, unlock, unlock);
    return new State;
  }();
  return *kState;
}

// The tree, made anew if it is old.
[[nodiscard]] const Tree& current(State& of) VERBENA_REQUIRES(of.mutex) {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  if (of.made == 0 || now.tv_sec - of.made > 1) {
    if (of.time == 0) of.time = ::time(nullptr);
    if (of.gids.refresh() || of.made == 0) of.tree = make_tree(identity::settings(), of.gids);
    of.made = std::max<time_t>(now.tv_sec, 1);
  }
  return of.tree;
}

[[nodiscard]] int fail_with(int error) {
  errno = error;
  return -1;
}

// Descriptors that were opened for counters, and may be something else by now. Those that do not
// fit in are read as they were.
class CounterDescriptors {
 public:
  void add(int fd) {
    if (fits(fd)) bits_[word(fd)].fetch_or(bit(fd), std::memory_order_relaxed);
  }
  [[nodiscard]] bool contains(int fd) const {
    return fits(fd) && (bits_[word(fd)].load(std::memory_order_relaxed) & bit(fd)) != 0;
  }

 private:
  [[nodiscard]] static bool fits(int fd) { return fd >= 0 && fd < 1024; }
  [[nodiscard]] static size_t word(int fd) { return static_cast<size_t>(fd) / 64; }
  [[nodiscard]] static uint64_t bit(int fd) { return uint64_t{1} << (fd % 64); }
  std::array<std::atomic<uint64_t>, 16> bits_{};
};
constinit CounterDescriptors counter_descriptors;

[[nodiscard]] int open_again(int fd, int flags) {
  std::array<char, 32> path;
  std::snprintf(path.data(), path.size(), "/proc/self/fd/%d", fd);
  return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path.data(), flags, 0));
}

[[nodiscard]] int make_memory(const std::string& path, const std::string& content, int flags,
                              bool changes = false) {
  opened.store(true, std::memory_order_relaxed);
  const std::string name = std::string(kMark) + path;
  const unsigned close_on_exec = (flags & O_CLOEXEC) != 0 ? MFD_CLOEXEC : 0;
  const int fd = ::memfd_create(name.c_str(), MFD_ALLOW_SEALING | close_on_exec);
  if (fd < 0) return -1;
  // Small enough to be taken in one piece.
  const auto size = static_cast<ssize_t>(content.size());
  ssize_t written = 0;
  {
    const BlockedSignals blocked{SIGXFSZ};  // ulimit -f
    written = ::pwrite(fd, content.data(), content.size(), 0);
  }
  if (written != size) {
    const int error = written < 0 ? errno : EIO;
    ::close(fd);
    return fail_with(error);
  }
  if (!changes) {
    ::fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_GROW | F_SEAL_SHRINK | F_SEAL_SEAL);
    return fd;
  }
  // The program's cannot write it; we open it once more to do so.
  const int only_read = open_again(fd, O_RDONLY | (flags & O_CLOEXEC));
  if (only_read < 0) return fd;
  ::close(fd);
  return only_read;
}

[[nodiscard]] ino_t number_of(std::string_view path) {
  uint64_t hash = 0xcbf29ce484222325;  // FNV-1a
  for (const char letter : path) hash = (hash ^ static_cast<uint8_t>(letter)) * 0x100000001b3;
  return hash;
}

}  // namespace

identity::Resolved resolve_shown(const std::string& path, identity::Follow follow) {
  State& shared = state();
  const MutexLock lock(shared.mutex);
  return identity::resolve(current(shared), path, follow);
}

bool anything_was_opened() { return opened.load(std::memory_order_relaxed); }

std::optional<TreeNode> look_up(const std::string& path) {
  State& shared = state();
  const MutexLock lock(shared.mutex);
  const TreeNode* const node = current(shared).find(path);
  if (node == nullptr) return std::nullopt;
  TreeNode copy = *node;
  if (copy.counter != nullptr) copy.content = counter_text(*copy.counter, shared.counters.read());
  return copy;
}

std::vector<std::string> names_in(const std::string& directory) {
  State& shared = state();
  const MutexLock lock(shared.mutex);
  return current(shared).names_in(directory);
}

bool may_be_counter(int fd) { return counter_descriptors.contains(fd); }

void read_anew(int fd) {
  const int saved = errno;
  const auto path = shown_by(fd);
  const auto node = path ? look_up(*path) : std::nullopt;
  if (node && node->counter != nullptr) {
    const BlockedSignals blocked{SIGXFSZ};
    const UniqueFd memory(open_again(fd, O_WRONLY | O_CLOEXEC));
    const auto size = static_cast<off_t>(node->content.size());
    (void)!::pwrite(memory.get(), node->content.data(), node->content.size(), 0);
    (void)!::ftruncate(memory.get(), size);
  }
  errno = saved;
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
      return make_memory(path, "", flags);
    }
    case TreeNode::Type::kLink: return fail_with(ELOOP);  // O_NOFOLLOW
    case TreeNode::Type::kFile: break;
  }
  if (to_write) return fail_with(EACCES);
  const int fd = make_memory(path, node->content, flags, node->counter != nullptr);
  if (fd >= 0 && node->counter != nullptr) counter_descriptors.add(fd);
  return fd;
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
    case TreeNode::Type::kLink:
      out.st_mode = S_IFLNK | 0777;
      out.st_size = static_cast<off_t>(node->content.size());
      break;
  }
  State& shared = state();
  const MutexLock lock(shared.mutex);
  out.st_atim.tv_sec = out.st_mtim.tv_sec = out.st_ctim.tv_sec = shared.time;
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
