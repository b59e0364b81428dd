// SPDX-License-Identifier: Apache-2.0
#include "medium/block_files.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <dirent.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <unistd.h>

#include "base/check.h"
#include "base/unique_fd.h"
#include "medium/allocate.h"
#include "medium/backend.h"
#include "medium/flush_queue.h"
#include "medium/pages.h"
#include "medium/words.h"

namespace verbena::medium {
namespace {

struct Name {
  uint32_t medium = 0;
  uint32_t media = 0;
  uint32_t index = 0;
  bool unfinished = false;
};

// blocks.IofN.KKK, or that and ".new".
std::optional<Name> parse(std::string_view text) {
  Name name;
  name.unfinished = text.ends_with(BlockFiles::kUnfinished);
  if (name.unfinished) text.remove_suffix(BlockFiles::kUnfinished.size());
  const auto skip = [&](std::string_view word) {
    const bool there = text.starts_with(word);
    if (there) text.remove_prefix(word.size());
    return there;
  };
  const auto number = [&](uint32_t& value) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    return error == std::errc{};
  };
  if (!skip("blocks.") || !number(name.medium) || !skip("of") || !number(name.media) ||
      !skip(".") || text.size() != 3 || !number(name.index) || !text.empty()) {
    return std::nullopt;
  }
  return name;
}

// How much was read, less only at the end; -1 with errno.
ssize_t read_all(int fd, uint8_t* out, size_t bytes, uint64_t offset) {
  size_t done = 0;
  while (done < bytes) {
    const ssize_t got = ::pread(fd, out + done, bytes - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return -1;
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return static_cast<ssize_t>(done);
}

// O_DIRECT wants aligned memory: what is not goes through a buffer.
ssize_t read_direct(int fd, std::span<uint8_t> out, uint64_t offset) {
  if (reinterpret_cast<uintptr_t>(out.data()) % kPage == 0) {
    return read_all(fd, out.data(), out.size(), offset);
  }
  const size_t bytes = std::min(out.size(), size_t{1} << 20);
  struct Free {
    void operator()(uint8_t* memory) const { operator delete[](memory, std::align_val_t{kPage}); }
  };
  const std::unique_ptr<uint8_t[], Free> buffer(new (std::align_val_t{kPage}) uint8_t[bytes]);
  for (size_t done = 0; done < out.size(); done += bytes) {
    const size_t piece = std::min(bytes, out.size() - done);
    const ssize_t got = read_all(fd, buffer.get(), piece, offset + done);
    if (got < 0) return -1;
    std::memcpy(out.data() + done, buffer.get(), static_cast<size_t>(got));
    if (static_cast<size_t>(got) < piece) return static_cast<ssize_t>(done) + got;
  }
  return static_cast<ssize_t>(out.size());
}

}  // namespace

std::string BlockFiles::name_of(uint32_t index) const {
  std::array<char, 8> digits{};
  static_cast<void>(std::snprintf(digits.data(), digits.size(), "%03u", index % kMaxFiles));
  return "blocks." + std::to_string(options_.medium) + "of" + std::to_string(options_.media) + "." +
         digits.data();
}

std::string BlockFiles::path_of(const BlockFile& file) const {
  return options_.folder + "/" + file.name;
}

Result<void> BlockFiles::open_folder() {
  const std::string& path = options_.folder;
  if (!options_.read_only) {
    if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST) {
      return system_error(Code::kIo, "creating directory " + path, errno);
    }
  }
  folder_.reset(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!folder_.valid()) {
    const bool not_ours = errno == ENOENT || errno == ENOTDIR;
    return system_error(not_ours ? Code::kBad : Code::kIo, "opening directory " + path, errno);
  }
  return {};
}

// The numbers of the files there are.
Result<std::set<uint32_t>> BlockFiles::scan() {
  struct Close {
    void operator()(DIR* dir) const { ::closedir(dir); }
  };
  UniqueFd fd(::openat(folder_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  const std::unique_ptr<DIR, Close> dir(fd.valid() ? ::fdopendir(fd.get()) : nullptr);
  if (!dir) return system_error(Code::kIo, "reading directory " + options_.folder, errno);
  static_cast<void>(fd.release());
  std::set<uint32_t> found;
  std::vector<std::string> unfinished;
  errno = 0;
  while (const dirent* entry = ::readdir(dir.get())) {
    const std::optional<Name> name = parse(entry->d_name);
    if (!name) continue;
    if (name->media != options_.media) {
      return fail(Error{Code::kBad, options_.folder + " has " + entry->d_name + ", of a store in " +
                                        std::to_string(name->media) + " directories; opened with " +
                                        std::to_string(options_.media)});
    }
    if (name->medium != options_.medium) continue;
    if (name->unfinished) {
      unfinished.emplace_back(entry->d_name);
    } else {
      found.insert(name->index);
    }
    errno = 0;
  }
  if (errno != 0) return system_error(Code::kIo, "reading directory " + options_.folder, errno);
  if (!found.empty() && *found.rbegin() != found.size() - 1 && !tolerant()) {
    uint32_t missing = 0;
    while (found.contains(missing)) ++missing;
    return fail(Error{Code::kBad, options_.folder + " has " + name_of(*found.rbegin()) + "; " +
                                      name_of(missing) + " is missing"});
  }
  // From a crash while they were being made: nobody has a block there.
  for (const std::string& name : unfinished) {
    if (!options_.read_only && ::unlinkat(folder_.get(), name.c_str(), 0) != 0) {
      return system_error(Code::kIo, "removing " + options_.folder + "/" + name, errno);
    }
  }
  return found;
}

UniqueFd BlockFiles::open_direct(const std::string& name) const {
  const int access = options_.read_only ? O_RDONLY : O_RDWR;
  struct statfs system{};
  // tmpfs takes O_DIRECT and has nothing but the page cache.
  if (::fstatfs(folder_.get(), &system) != 0 || system.f_type == TMPFS_MAGIC) return UniqueFd();
  return UniqueFd(::openat(folder_.get(), name.c_str(),
                           access | O_DIRECT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
}

// Opens an existing file. It may be anybody's: what is not as we make them is refused.
Result<void> BlockFiles::adopt(uint32_t index, bool last) {
  auto file = std::make_unique<BlockFile>();
  file->name = name_of(index);
  const std::string path = path_of(*file);
  const int access = options_.read_only ? O_RDONLY : O_RDWR;
  // A link may lead to a file that is not the store's; a pipe would have us wait.
  file->fd.reset(
      ::openat(folder_.get(), file->name.c_str(), access | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!file->fd.valid()) {
    const bool bad = errno == ELOOP || errno == EISDIR || errno == ENXIO;
    return system_error(bad ? Code::kBad : Code::kIo, "opening " + path, errno);
  }
  struct stat facts{};
  if (::fstat(file->fd.get(), &facts) != 0)
    return system_error(Code::kIo, "reading the status of " + path, errno);
  if (!S_ISREG(facts.st_mode)) return fail(Error{Code::kBad, path + " is not a regular file"});
  if (facts.st_nlink != 1 && !options_.read_only) {
    return fail(
        Error{Code::kIo, path + " has more than one hard link, and a write would change all of " +
                             "them; open the store read-only, or copy it"});
  }
  const auto bytes = static_cast<uint64_t>(facts.st_size);
  const uint64_t blocks = bytes / options_.block_bytes;
  // Of a file that was cut off, what is whole can still be read, if no other comes behind it or
  // that one can tell where it belongs.
  const bool usable =
      tolerant() ||
      (bytes % options_.block_bytes == 0 ? bytes > 0 : options_.read_only && last && blocks > 0);
  if (!usable || blocks > UINT32_MAX - existing()) {
    return fail(Error{Code::kBad, path + " has " + std::to_string(bytes) +
                                      " bytes, which is not a multiple of the block size " +
                                      size_text(options_.block_bytes) +
                                      ": it was cut off, or has another block size"});
  }
  if (tolerant()) correct_last(file->fd.get());
  file->first = existing();
  const bool cut = tolerant() && bytes % options_.block_bytes != 0;
  file->blocks = static_cast<uint32_t>(blocks) + (cut ? 1 : 0);
  file->bytes = bytes;
  // Copies of a store often have holes where the original had unused blocks. Filling them costs
  // nothing where there are none. Reading a hole is harmless.
  if (!options_.read_only) {
    struct statfs system{};
    const auto held = static_cast<uint64_t>(facts.st_blocks) * 512;
    if (held < bytes && ::fstatfs(file->fd.get(), &system) == 0 &&
        (bytes - held) / static_cast<uint64_t>(system.f_bsize) > system.f_bavail) {
      return fail(Error{Code::kFull, path + " has holes of " + size_text(bytes - held) +
                                         ", and its file system has no space to fill them"});
    }
    const int error = allocate_all(file->fd.get(), bytes);
    if (error == EOPNOTSUPP ? held < bytes : error != 0) {
      return system_error(no_room(error) ? Code::kFull : Code::kIo, "filling holes of " + path,
                          error);
    }
  }
  file->direct = open_direct(file->name);
  publish(std::move(file));
  return {};
}

void BlockFiles::leave_out(uint32_t index) {
  auto file = std::make_unique<BlockFile>();
  file->name = name_of(index);
  file->first = existing();
  const uint64_t blocks = index == 0 ? kFirstBlocks : uint64_t{2} * this->file(index - 1).blocks;
  file->blocks = static_cast<uint32_t>(std::min<uint64_t>(
      {blocks, options_.max_file_bytes / options_.block_bytes, UINT32_MAX - existing()}));
  publish(std::move(file));
}

void BlockFiles::correct_last(int next) {
  if (count() == 0) return;
  BlockFile& last = this->last();
  // Also one that was cut off between two blocks: nothing else tells.
  const auto position = options_.position_of(next);
  if (!position || *position <= last.first) return;
  const uint64_t present = (last.bytes + options_.block_bytes - 1) / options_.block_bytes;
  if (*position - last.first >= present) last.blocks = *position - last.first;
}

void BlockFiles::publish(std::unique_ptr<BlockFile> file) {
  const uint32_t index = count();
  if (index == 0) past_cache_ = file->direct.valid();
  if (!file->direct.valid()) past_cache_ = false;
  owned_.push_back(std::move(file));
  files_.at(index).store(owned_.back().get(), std::memory_order_release);
  count_.store(index + 1, std::memory_order_release);
}

Result<std::unique_ptr<BlockFiles>> BlockFiles::open(const FileOptions& options) {
  VERBENA_CHECK(options.block_bytes > 0 && options.block_bytes % kPage == 0);
  VERBENA_CHECK(options.medium < options.media);
  std::unique_ptr<BlockFiles> files(new BlockFiles(options));
  if (auto done = files->open_folder(); !done) return fail(done.error());
  const Result<std::set<uint32_t>> found = files->scan();
  if (!found) return fail(found.error());
  const uint32_t count = found->empty() ? 0 : *found->rbegin() + 1;
  for (uint32_t index = 0; index < count; ++index) {
    if (!found->contains(index)) {
      files->leave_out(index);
    } else if (auto done = files->adopt(index, index + 1 == count); !done) {
      return fail(done.error());
    }
  }
  // Whoever made the last one may have been killed before its name was durable, or could not sync.
  if (count > 0 && !options.read_only && ::fsync(files->folder_.get()) != 0) {
    return system_error(Code::kIo, "syncing directory " + options.folder, errno);
  }
  files->capacity_ = std::max(options.capacity, files->existing());
  return files;
}

uint32_t BlockFiles::existing() const {
  const uint32_t files = count();
  return files == 0 ? 0 : file(files - 1).first + file(files - 1).blocks;
}

bool BlockFiles::has(uint32_t position) const {
  if (position >= existing()) return false;
  const BlockFile& in = file(index_of(position));
  return (position - in.first) * uint64_t{options_.block_bytes} < in.bytes;
}

uint32_t BlockFiles::index_of(uint32_t position) const {
  uint32_t low = 0;
  uint32_t high = count();
  while (high - low > 1) {
    const uint32_t middle = (low + high) / 2;
    (file(middle).first <= position ? low : high) = middle;
  }
  return low;
}

std::vector<FilePiece> BlockFiles::split(std::span<const FlushQueue::Range> ranges) const {
  std::vector<FilePiece> pieces;
  for (auto [begin, end] : ranges) {
    while (begin < end) {
      const uint32_t index = index_of(static_cast<uint32_t>(begin / options_.block_bytes));
      const uint64_t behind =
          (uint64_t{file(index).first} + file(index).blocks) * options_.block_bytes;
      const uint64_t cut = std::min(end, behind);
      pieces.push_back({.file = index, .begin = begin, .end = cut});
      begin = cut;
    }
  }
  return pieces;
}

Result<void> BlockFiles::read(uint32_t position, size_t offset, std::span<uint8_t> out) const {
  VERBENA_CHECK(position < existing() && offset + out.size() <= options_.block_bytes);
  const BlockFile& from = file(index_of(position));
  const uint64_t at = (position - from.first) * uint64_t{options_.block_bytes} + offset;
  if (tolerant() && at + out.size() > from.bytes) {
    // Whole pages only: chunks of which a part is missing are lost.
    const uint64_t there = from.bytes / kPage * kPage;
    const size_t readable = there > at ? there - at : 0;
    std::ranges::fill(out.subspan(readable), uint8_t{0});
    if (readable == 0) return {};
    out = out.first(readable);
  }
  ssize_t got = -1;
  errno = EINVAL;
  if (from.direct.valid()) got = read_direct(from.direct.get(), out, at);
  if (got < 0 && errno == EINVAL) {  // some file systems refuse only here
    past_cache_.store(false, std::memory_order_relaxed);
    got = read_all(from.fd.get(), out.data(), out.size(), at);
  }
  if (got < 0) return system_error(Code::kIo, "reading " + path_of(from), errno);
  if (static_cast<size_t>(got) < out.size()) {
    return fail(Error{Code::kIo, path_of(from) + " is shorter than its blocks: it was cut off"});
  }
  return {};
}

}  // namespace verbena::medium
