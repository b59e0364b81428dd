// SPDX-License-Identifier: Apache-2.0
// How the files of a directory become more, and fewer again.
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/check.h"
#include "base/unique_fd.h"
#include "medium/allocate.h"
#include "medium/block_files.h"
#include "medium/words.h"

namespace verbena::medium {
namespace {

constexpr int kMostParents = 100;

// errno of it, 0 if it went well.
int fill_with_zeros(int fd, uint64_t bytes) {
  const std::vector<uint8_t> zeros(std::min<uint64_t>(bytes, uint64_t{1} << 20));
  for (uint64_t at = 0; at < bytes;) {
    const ssize_t wrote = ::pwrite(fd, zeros.data(), std::min<uint64_t>(zeros.size(), bytes - at),
                                   static_cast<off_t>(at));
    if (wrote < 0 && errno != EINTR) return errno;
    if (wrote > 0) at += static_cast<uint64_t>(wrote);
  }
  return 0;
}

}  // namespace

// The directory's name, and those of its parents, must be as durable as what is in it. Whoever made
// them (a command that was killed since, `mkdir -p`) need not have synced them. Up to the root of
// the file system; one that we may not read was not made by us.
Result<void> BlockFiles::sync_parents() const {
  struct stat child{};
  if (::fstat(folder_.get(), &child) != 0) {
    return system_error(Code::kIo, "reading the status of " + options_.folder, errno);
  }
  std::string path = options_.folder;
  for (int depth = 0; depth < kMostParents; ++depth) {
    path += "/..";
    const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    struct stat parent{};
    if (!fd.valid() && (errno == EACCES || errno == EPERM)) continue;
    if (!fd.valid() || ::fstat(fd.get(), &parent) != 0) {
      return system_error(Code::kIo, "opening directory " + path, errno);
    }
    const bool same = parent.st_dev == child.st_dev && parent.st_ino == child.st_ino;
    if (same || parent.st_dev != child.st_dev) break;
    // Some file systems have nothing to sync.
    if (::fsync(fd.get()) != 0 && errno != EINVAL && errno != EROFS) {
      return system_error(Code::kIo, "syncing directory " + path, errno);
    }
    child = parent;
  }
  return {};
}

// Who may use the store may use its new files, too: they get the permissions of the others, and
// from root the owner of the others or of the folder, as far as the system has it.
bool BlockFiles::like_the_others(int fd) const {
  struct stat other{};
  const bool first = count() == 0;
  if (::fstat(first ? folder_.get() : file(0).fd.get(), &other) != 0) return false;
  if (::geteuid() == 0 && other.st_uid != 0 && ::fchown(fd, other.st_uid, other.st_gid) != 0 &&
      errno != EPERM && errno != EINVAL) {
    return false;
  }
  return first || ::fchmod(fd, other.st_mode & 0666) == 0;
}

// A file of zeros, all of it allocated, durable but for its name. errno is set on kFull.
Result<UniqueFd> BlockFiles::prepare(const std::string& name, uint32_t blocks) const {
  const std::string path = options_.folder + "/" + name;
  const uint64_t bytes = blocks * uint64_t{options_.block_bytes};
  ::unlinkat(folder_.get(), name.c_str(), 0);  // of an attempt before
  UniqueFd fd(::openat(folder_.get(), name.c_str(),
                       O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (!fd.valid())
    return system_error(no_room(errno) ? Code::kFull : Code::kIo, "creating " + path, errno);
  int error = allocate_all(fd.get(), bytes);
  if (error == EOPNOTSUPP || error == ENOSYS) error = fill_with_zeros(fd.get(), bytes);
  if (error == 0 && !like_the_others(fd.get())) error = errno;
  if (error == 0 && ::fsync(fd.get()) != 0) error = errno;
  if (error == 0) return fd;
  ::unlinkat(folder_.get(), name.c_str(), 0);
  return system_error(no_room(error) ? Code::kFull : Code::kIo,
                      "creating " + path + " with " + size_text(bytes), error);
}

Result<void> BlockFiles::grow() {
  if (options_.read_only) {
    return fail(Error{Code::kBad, options_.folder + " is open read-only"});
  }
  const uint32_t index = count();
  const uint32_t there = existing();
  if (there >= capacity_) {
    return fail(Error{Code::kFull, options_.folder + " has reached its capacity of " +
                                       std::to_string(capacity_) + " blocks of " +
                                       size_text(options_.block_bytes)});
  }
  if (index == kMaxFiles) {
    return fail(Error{Code::kFull, options_.folder + " has " + std::to_string(kMaxFiles) +
                                       " block files, which is the maximum"});
  }
  uint64_t blocks = index == 0 ? kFirstBlocks : uint64_t{2} * file(index - 1).blocks;
  blocks = std::min(blocks, options_.max_file_bytes / options_.block_bytes);
  blocks = std::clamp<uint64_t>(blocks, 1, capacity_ - there);

  const std::string unfinished = name_of(index) + std::string(kUnfinished);
  Result<UniqueFd> fd = prepare(unfinished, static_cast<uint32_t>(blocks));
  while (!fd && fd.error().code == Code::kFull && blocks > 1) {
    blocks /= 2;
    fd = prepare(unfinished, static_cast<uint32_t>(blocks));
  }
  if (!fd) {
    Error error = fd.error();
    if (error.code == Code::kFull) error.what += "; free some space on its file system";
    return fail(std::move(error));
  }

  auto file = std::make_unique<BlockFile>();
  file->name = name_of(index);
  if (::renameat(folder_.get(), unfinished.c_str(), folder_.get(), file->name.c_str()) != 0 ||
      ::fsync(folder_.get()) != 0) {
    return system_error(Code::kIo, "renaming a file to " + path_of(*file), errno);
  }
  if (index == 0) {
    if (auto synced = sync_parents(); !synced) return synced;
  }
  file->fd = *std::move(fd);
  file->direct = open_direct(file->name);
  file->first = there;
  file->blocks = static_cast<uint32_t>(blocks);
  file->bytes = blocks * uint64_t{options_.block_bytes};
  publish(std::move(file));
  return {};
}

void BlockFiles::leave_last() {
  VERBENA_CHECK(!options_.read_only && count() > 1);
  count_.store(count() - 1, std::memory_order_release);
}

Result<void> BlockFiles::remove_left() {
  BlockFile& gone = *files_.at(count()).load();
  // Should it stay, it is of no use and does no harm: a file that is made later takes its place.
  gone.direct.reset();
  gone.fd.reset();
  if (::unlinkat(folder_.get(), gone.name.c_str(), 0) != 0) {
    return system_error(Code::kIo, "removing " + path_of(gone), errno);
  }
  // It may come back after a crash, with blocks that nobody refers to.
  if (::fsync(folder_.get()) != 0) {
    return system_error(Code::kIo, "syncing directory " + options_.folder, errno);
  }
  return {};
}

uint32_t BlockFiles::end_of(uint32_t blocks) const {
  for (uint32_t index = 0; index < count(); ++index) {
    const uint32_t end = file(index).first + file(index).blocks;
    if (end >= blocks) return end;
  }
  return existing();
}

Result<void> BlockFiles::grow_to(uint32_t position) {
  while (position >= existing()) {
    if (auto grown = grow(); !grown) return grown;
  }
  return {};
}

}  // namespace verbena::medium
