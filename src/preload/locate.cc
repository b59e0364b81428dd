// SPDX-License-Identifier: Apache-2.0
#include "preload/locate.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include <fcntl.h>
#include <linux/limits.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "preload/shown.h"

namespace verbena::preload {
namespace {

constexpr std::string_view kMemoryPrefix = "/memfd:verbena:";
constexpr std::string_view kGone = " (deleted)";
constexpr std::string_view kEnteredMark = "/verbena-in:";
// Stands for '/' in the name of a directory.
constexpr char kSlash = '|';

// Whether the current directory is one of ours; kUnknown: to be looked at.
enum class Current : uint8_t { kUnknown, kForeign, kOurs };
std::atomic<Current> current_kind{Current::kUnknown};

// The kernel's, for readlink() is one of ours. Leaves errno alone.
[[nodiscard]] std::string read_link(const char* path) {
  const int saved = errno;
  std::array<char, PATH_MAX> target;
  const long length = ::syscall(SYS_readlinkat, AT_FDCWD, path, target.data(), target.size());
  errno = saved;
  return length <= 0 ? std::string() : std::string(target.data(), static_cast<size_t>(length));
}

[[nodiscard]] std::optional<std::string> entered() {
  const std::string link = read_link("/proc/self/cwd");
  const size_t mark = link.find(kEnteredMark);
  if (mark == std::string::npos || !link.ends_with(kGone)) return std::nullopt;
  // Behind the mark: a number, a colon, the path.
  const size_t colon = link.find(':', mark + kEnteredMark.size());
  if (colon == std::string::npos) return std::nullopt;
  std::string path = link.substr(colon + 1, link.size() - kGone.size() - colon - 1);
  std::ranges::replace(path, kSlash, '/');
  if (!identity::is_in_roots(path)) return std::nullopt;
  return path;
}

// A directory that is there for a moment, in any place where we may make one.
[[nodiscard]] int enter_removed(const std::string& name) {
  const char* const temporary = std::getenv("TMPDIR");
  int error = EACCES;
  for (const char* const place : {"/dev/shm", "/tmp", "/var/tmp", temporary}) {
    if (place == nullptr) continue;
    static std::atomic<uint32_t> number{0};
    for (int attempt = 0; attempt < 100; ++attempt) {
      std::array<char, 32> unique;
      std::snprintf(unique.data(), unique.size(), "%ld.%u:", long{::getpid()}, number++);
      const std::string path = place + std::string(kEnteredMark) + unique.data() + name;
      if (::mkdir(path.c_str(), 0500) != 0) {
        if (errno == EEXIST) continue;
        error = errno;
        break;
      }
      const long went = ::syscall(SYS_chdir, path.c_str());
      error = errno;
      ::rmdir(path.c_str());
      if (went == 0) return 0;
      break;
    }
  }
  errno = error;
  return -1;
}

[[nodiscard]] Place place_of(const std::string& path, Follow follow, bool from_ours) {
  identity::Resolved found = resolve_shown(path, follow);
  switch (found.kind) {
    case identity::Resolved::Kind::kInside:    return {true, std::move(found.path)};
    case identity::Resolved::Kind::kElsewhere: return {false, std::move(found.path)};
    case identity::Resolved::Kind::kForeign:   break;
  }
  return from_ours ? Place(false, path) : Place();
}

}  // namespace

std::optional<std::string> shown_by(int fd) {
  if (fd < 0 || !anything_was_opened()) return std::nullopt;
  std::array<char, 32> link;
  std::snprintf(link.data(), link.size(), "/proc/self/fd/%d", fd);
  const std::string target = read_link(link.data());
  std::string_view name = target;
  if (!name.starts_with(kMemoryPrefix) || !name.ends_with(kGone)) return std::nullopt;
  name.remove_prefix(kMemoryPrefix.size());
  name.remove_suffix(kGone.size());
  if (!identity::is_in_roots(name)) return std::nullopt;
  return std::string(name);
}

std::optional<std::string> directory_of(int fd) {
  auto path = shown_by(fd);
  if (!path) return std::nullopt;
  const auto node = look_up(*path);
  if (!node || node->type != identity::TreeNode::Type::kDirectory) return std::nullopt;
  return path;
}

std::optional<std::string> current_directory() {
  if (current_kind.load(std::memory_order_relaxed) == Current::kForeign) return std::nullopt;
  auto path = entered();
  current_kind.store(path ? Current::kOurs : Current::kForeign, std::memory_order_relaxed);
  return path;
}

void forget_current_directory() {
  current_kind.store(Current::kUnknown, std::memory_order_relaxed);
}

int enter(const std::string& directory) {
  const auto node = look_up(directory);
  if (!node || node->type != identity::TreeNode::Type::kDirectory) {
    errno = node ? ENOTDIR : ENOENT;
    return -1;
  }
  std::string name = directory;
  std::ranges::replace(name, '/', kSlash);
  const int result = enter_removed(name);
  forget_current_directory();
  return result;
}

Place locate(int directory, const char* path, Follow follow) {
  if (path == nullptr || path[0] == 0) return {};
  if (path[0] == '/') {
    return identity::may_lead_to_roots(path) ? place_of(path, follow, false) : Place();
  }
  if (directory != AT_FDCWD) {
    const auto from = directory_of(directory);
    return from ? place_of(*from + '/' + path, follow, true) : Place();
  }
  if (const auto from = current_directory()) return place_of(*from + '/' + path, follow, true);
  if (!identity::may_lead_to_roots(path)) return {};
  std::array<char, PATH_MAX> from;
  if (::syscall(SYS_getcwd, from.data(), from.size()) <= 0) return {};
  return place_of(std::string(from.data()) + '/' + path, follow, false);
}

Place locate_with_flags(int directory, const char* path, int flags) {
  const bool by_descriptor = path == nullptr || path[0] == 0;
  if ((flags & AT_EMPTY_PATH) != 0 && by_descriptor) {
    auto shown = directory == AT_FDCWD ? current_directory() : shown_by(directory);
    return shown ? Place(true, std::move(*shown)) : Place();
  }
  return locate(directory, path,
                (flags & AT_SYMLINK_NOFOLLOW) != 0 ? Follow::kNotTheLast : Follow::kAll);
}

}  // namespace verbena::preload
