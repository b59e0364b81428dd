// SPDX-License-Identifier: Apache-2.0
#include "cli/namespace_view.h"

#include <algorithm>
#include <cerrno>
#include <climits>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/unique_fd.h"

namespace verbena::cli {
namespace {

using identity::TreeNode;
using Done = Result<void, std::string>;

[[nodiscard]] auto refused(const std::string& what) {
  return fail(what + ": " + std::strerror(errno));
}

[[nodiscard]] Done write_file(const std::string& path, const std::string& content, int flags) {
  const UniqueFd fd(::open(path.c_str(), flags | O_WRONLY | O_CLOEXEC, 0444));
  const auto size = static_cast<ssize_t>(content.size());
  if (!fd.valid() || ::write(fd.get(), content.data(), content.size()) != size) {
    return refused(path);
  }
  return {};
}

// What is mounted later outside appears inside; never the other way round.
[[nodiscard]] Done detach_mounts() {
  if (::mount("none", "/", nullptr, MS_REC | MS_SLAVE, nullptr) != 0) return refused("mounts");
  return {};
}

// The same from a root that is no mount point (a chroot): the mount that has it can be named from
// the root of all alone. That is above a current directory which is outside the root.
[[nodiscard]] Done detach_mounts_around_root() {
  const UniqueFd root(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
  const UniqueFd current(::open(".", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root.valid() || !current.valid()) return refused("/");
  if (::fchdir(root.get()) != 0 || ::chroot("/dev") != 0) return refused("chroot");
  constexpr int kDeepest = 200;
  for (int i = 0; i < kDeepest; ++i) (void)!::chdir("..");
  auto done = ::chroot(".") == 0 ? detach_mounts() : Done(refused("chroot"));
  if (::fchdir(root.get()) != 0 || ::chroot(".") != 0 || ::fchdir(current.get()) != 0) {
    return refused("back to the root");
  }
  return done;
}

// Root needs no user namespace, and keeps its powers without one. Anybody else gets one in which
// they are themselves, and nobody else is anybody.
[[nodiscard]] Done separate() {
  const std::string user = std::to_string(::geteuid());
  const std::string group = std::to_string(::getegid());
  if (::unshare(CLONE_NEWNS) != 0) {
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return refused("no user namespace");
    // In this order: who may not set groups may map their own.
    if (auto done = write_file("/proc/self/setgroups", "deny", 0); !done) return done;
    if (auto done = write_file("/proc/self/uid_map", user + ' ' + user + " 1", 0); !done) {
      return done;
    }
    if (auto done = write_file("/proc/self/gid_map", group + ' ' + group + " 1", 0); !done) {
      return done;
    }
  }
  auto done = detach_mounts();
  if (!done && errno == EINVAL) return detach_mounts_around_root();
  return done;
}

struct CloseDirectory {
  void operator()(DIR* directory) const { ::closedir(directory); }
};
using Directory = std::unique_ptr<DIR, CloseDirectory>;

// Makes at `to` what the covered directory has under the name: links as they are, the rest bound.
[[nodiscard]] Done carry_over(int covered, const std::string& name, const std::string& to) {
  struct stat status{};
  if (::fstatat(covered, name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) return {};  // just gone
  if (S_ISLNK(status.st_mode)) {
    std::string target(static_cast<size_t>(PATH_MAX), '\0');
    const ssize_t length = ::readlinkat(covered, name.c_str(), target.data(), target.size());
    target.resize(static_cast<size_t>(std::max<ssize_t>(length, 0)));
    return ::symlink(target.c_str(), to.c_str()) == 0 ? Done{} : refused(to);
  }
  if (S_ISDIR(status.st_mode)) {
    if (::mkdir(to.c_str(), 0755) != 0) return refused(to);
  } else if (auto done = write_file(to, "", O_CREAT | O_EXCL); !done) {
    return done;
  }
  const std::string from = "/proc/self/fd/" + std::to_string(covered) + '/' + name;
  if (::mount(from.c_str(), to.c_str(), nullptr, MS_BIND | MS_REC, nullptr) != 0) {
    return refused(to);
  }
  return {};
}

// Covers a directory of the host with one in memory that has all the same, but not the names that
// are ours.
[[nodiscard]] Done cover(const std::string& directory) {
  const auto is_ours = [&](std::string_view name) {
    const std::string path = directory + '/' + std::string(name);
    return std::ranges::find(identity::kShownRoots, path) != identity::kShownRoots.end() ||
           std::ranges::find(identity::kHiddenRoots, path) != identity::kHiddenRoots.end();
  };
  const Directory covered(::opendir(directory.c_str()));
  if (covered == nullptr) return refused(directory);
  if (::mount("verbena", directory.c_str(), "tmpfs", MS_NOSUID | MS_NOEXEC, "mode=755") != 0) {
    return refused("mounting on " + directory);
  }
  const std::string start = directory + '/';
  while (const dirent* const entry = ::readdir(covered.get())) {
    const std::string name = entry->d_name;
    if (name == "." || name == ".." || is_ours(name)) continue;
    if (auto done = carry_over(::dirfd(covered.get()), name, start + name); !done) {
      return done;
    }
  }
  return {};
}

[[nodiscard]] Done put(const std::string& path, const TreeNode& node) {
  switch (node.type) {
    case TreeNode::Type::kDirectory:
      return ::mkdir(path.c_str(), 0755) == 0 ? Done{} : refused(path);
    case TreeNode::Type::kFile: return write_file(path, node.content, O_CREAT | O_EXCL);
    case TreeNode::Type::kLink:
      return ::symlink(node.content.c_str(), path.c_str()) == 0 ? Done{} : refused(path);
    case TreeNode::Type::kDevice: break;
  }
  // Root may make one, where the device it is like is missing.
  if (::mknod(path.c_str(), S_IFCHR | 0666, makedev(1, 3)) == 0) return {};
  if (auto done = write_file(path, "", O_CREAT | O_EXCL); !done) return done;
  const bool bound = ::mount("/dev/null", path.c_str(), nullptr, MS_BIND, nullptr) == 0;
  return bound ? Done{} : refused(path);
}

// What was made cannot be written to, as what it stands for.
[[nodiscard]] Done close_up(const std::string& directory) {
  constexpr unsigned long kFlags = MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NOEXEC;
  if (::mount("none", directory.c_str(), nullptr, kFlags, nullptr) != 0) return refused(directory);
  return {};
}

// The directories that have our names, or, in a root without them, the one that has them.
[[nodiscard]] Result<std::vector<std::string>, std::string> cover_all() {
  std::vector<std::string> covered;
  for (const std::string directory : {"/sys/class", "/sys/devices", "/dev"}) {
    const bool missing = ::access(directory.c_str(), F_OK) != 0;
    const std::string place = missing && directory != "/dev" ? "/sys" : directory;
    if (std::ranges::find(covered, place) == covered.end()) {
      if (auto done = cover(place); !done) return fail(done.error());
      covered.push_back(place);
    }
    if (missing && ::mkdir(directory.c_str(), 0755) != 0) return refused(directory);
  }
  return covered;
}

[[nodiscard]] Done build(const identity::Tree& tree, const std::function<void()>& while_open) {
  const auto covered = cover_all();
  if (!covered) return fail(covered.error());
  for (const auto& [path, node] : tree.nodes()) {
    if (auto done = put(path, node); !done) return done;
  }
  while_open();
  for (const std::string& directory : *covered) {
    if (auto done = close_up(directory); !done) return done;
  }
  return {};
}

}  // namespace

Done enter_namespace_view(const identity::Tree& tree, const std::function<void()>& while_open) {
  if (auto done = separate(); !done) return done;
  const mode_t mask = ::umask(0);
  auto done = build(tree, while_open);
  ::umask(mask);
  return done;
}

bool can_enter_namespace_view(const identity::Tree& tree) {
  const pid_t child = ::fork();
  if (child < 0) return false;
  if (child == 0) ::_exit(enter_namespace_view(tree, [] {}) ? 0 : 1);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) {}
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace verbena::cli
