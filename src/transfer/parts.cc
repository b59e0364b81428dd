// SPDX-License-Identifier: Apache-2.0
#include "transfer/parts.h"

#include <cerrno>
#include <ctime>
#include <memory>
#include <optional>
#include <string_view>

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/block_sums.h"

namespace verbena::transfer {
namespace {

constexpr std::string_view kPrefix = ".verbena-";
constexpr std::string_view kSuffix = ".part";
// Each level has a descriptor while what is below it is looked at.
constexpr int kMaxDepth = 200;
constexpr int kMaxTries = 10;

std::string unique_part_name() {
  static std::atomic<uint64_t> next{0};
  static const uint64_t tag = [] {
    uint64_t random = 0;
    // Without it: names may be taken, and then others are tried.
    static_cast<void>(!getrandom(&random, sizeof random, 0));
    return random;
  }();
  return fmt::format("{}{:016x}-{}{}", kPrefix, tag, next.fetch_add(1), kSuffix);
}

bool is_all_of(std::string_view text, std::string_view characters) {
  return !text.empty() && text.find_first_not_of(characters) == std::string_view::npos;
}

// To the letter: what merely looks like it is not ours to remove.
enum class PartKind : uint8_t { kResumable, kOther };
std::optional<PartKind> kind_of(std::string_view name) {
  constexpr std::string_view kDigits = "0123456789";
  constexpr size_t kHashDigits = 16;
  if (name.size() < kPrefix.size() + kHashDigits + kSuffix.size() || !name.starts_with(kPrefix) ||
      !name.ends_with(kSuffix)) {
    return std::nullopt;
  }
  name.remove_prefix(kPrefix.size());
  name.remove_suffix(kSuffix.size());
  if (!is_all_of(name.substr(0, kHashDigits), "0123456789abcdef")) return std::nullopt;
  name.remove_prefix(kHashDigits);
  if (name.empty()) return PartKind::kResumable;
  if (name.front() != '-' || !is_all_of(name.substr(1), kDigits)) return std::nullopt;
  return PartKind::kOther;
}

UniqueFd open_left_over(const UniqueFd& folder, const char* name) {
  constexpr int kFlags = O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
  // Some network file systems lock only what can be written; but its mode may forbid that by now.
  UniqueFd fd(openat(folder.get(), name, O_RDWR | kFlags));
  if (!fd.valid()) fd.reset(openat(folder.get(), name, O_RDONLY | kFlags));
  return fd;
}

bool remove_if_stale(const UniqueFd& folder, const char* name, PartKind kind, time_t before) {
  const UniqueFd fd = open_left_over(folder, name);
  struct stat status{};
  if (!fd.valid() || !lock_part(fd.get(), folder, name, status)) return false;
  if (kind == PartKind::kResumable && status.st_mtim.tv_sec > before) return false;
  return unlinkat(folder.get(), name, 0) == 0;
}

bool is_folder(const UniqueFd& parent, const dirent& entry) {
  if (entry.d_type != DT_UNKNOWN) return entry.d_type == DT_DIR;
  struct stat status{};
  return fstatat(parent.get(), entry.d_name, &status, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISDIR(status.st_mode);
}

size_t remove_stale_below(const UniqueFd& folder, time_t before, int depth,
                          const std::atomic<bool>& stop) {
  UniqueFd copy(openat(folder.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!copy.valid()) return 0;
  const std::unique_ptr<DIR, int (*)(DIR*)> list(fdopendir(copy.get()), closedir);
  if (list == nullptr) return 0;
  static_cast<void>(copy.release());
  size_t removed = 0;
  while (!stop.load(std::memory_order_relaxed)) {
    const dirent* const entry = readdir(list.get());
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name == "." || name == "..") continue;
    if (const auto kind = kind_of(name)) {
      removed += remove_if_stale(folder, entry->d_name, *kind, before) ? 1 : 0;
    } else if (depth < kMaxDepth && is_folder(folder, *entry)) {
      const UniqueFd below(
          openat(folder.get(), entry->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
      if (below.valid()) removed += remove_stale_below(below, before, depth + 1, stop);
    }
  }
  return removed;
}

}  // namespace

std::string resumable_part_name(const std::string& name, uint64_t size,
                                const Attributes& attributes) {
  std::string all = fmt::format("{} {} {} ", size, attributes.modified_s, attributes.modified_ns);
  all += name;
  const uint64_t hash = ~crc64_update(~uint64_t{0}, bytes_of(all));
  return fmt::format("{}{:016x}{}", kPrefix, hash, kSuffix);
}

bool lock_part(int fd, const UniqueFd& folder, const std::string& name, struct stat& status) {
  struct stat named{};
  return flock(fd, LOCK_EX | LOCK_NB) == 0 && fstat(fd, &status) == 0 && S_ISREG(status.st_mode) &&
         status.st_nlink == 1 &&
         fstatat(folder.get(), name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         named.st_dev == status.st_dev && named.st_ino == status.st_ino;
}

void remove_part(const UniqueFd& folder, const std::string& name) {
  const UniqueFd fd = open_left_over(folder, name.c_str());
  struct stat status{};
  if (fd.valid() && lock_part(fd.get(), folder, name, status)) {
    unlinkat(folder.get(), name.c_str(), 0);
  }
}

NewPart make_part(const UniqueFd& folder, mode_t mode) {
  NewPart part;
  for (int i = 0; i < kMaxTries; ++i) {
    part.name = unique_part_name();
    part.fd.reset(openat(folder.get(), part.name.c_str(),
                         O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode));
    if (!part.fd.valid()) {
      if (errno == EEXIST) continue;
      break;
    }
    // One that removes what is left over may have come before the lock. Where files cannot be
    // locked, it cannot lock them either, and so removes nothing.
    struct stat status{};
    const bool has_it = flock(part.fd.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    const bool there = fstat(part.fd.get(), &status) == 0 && status.st_nlink > 0;
    part.mode = status.st_mode & kModeBits;
    if (!has_it && there) break;
    unlinkat(folder.get(), part.name.c_str(), 0);
    part.fd.reset();
    errno = EBUSY;
  }
  return part;
}

size_t remove_stale_parts(const UniqueFd& folder, int64_t keep_seconds,
                          const std::atomic<bool>& stop) {
  const time_t before = time(nullptr) - static_cast<time_t>(keep_seconds);
  return remove_stale_below(folder, before, 0, stop);
}

}  // namespace verbena::transfer
