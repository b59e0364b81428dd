// SPDX-License-Identifier: Apache-2.0
#include "backend/directory_tier.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <limits>

#include <fcntl.h>
#include <fmt/format.h>

#include "backend/directory_impl.h"
#include "backend/directory_update.h"
#include "store/crc_parts.h"

namespace verbena::backend {
namespace {

// Its presence says that the last owner has left nothing over.
constexpr const char* kClosedMark = ".verbena/closed";

constexpr size_t kPartsToBegin = 256;  // 1 MiB

[[nodiscard]] Error conflict(const std::string& what) { return {Code::kConflict, what, {}}; }

// On a file system that takes "A" for "a" two objects would be one file.
[[nodiscard]] bool ignores_case(Files& files, int root) {
  struct stat small{};
  struct stat large{};
  return files.status(root, std::string(kReserved), small) == 0 &&
         files.status(root, ".VERBENA", large) == 0 && small.st_ino == large.st_ino;
}

}  // namespace

Result<std::unique_ptr<DirectoryTier>> DirectoryTier::open(const std::string& path, Files& files) {
  const auto failed = [&](const char* what, int error) {
    const Code code = error == EROFS    ? Code::kReadOnly
                      : error == ENOENT ? Code::kNotFound
                      : error == ENOSPC ? Code::kFull
                                        : Code::kIo;
    return fail(
        Error{code, fmt::format("directory {}: {}: {}", path, what, std::strerror(error)), {}});
  };
  UniqueFd root(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root.valid()) return failed("cannot open it", errno);
  const int made = files.make_folder(root.get(), std::string(kReserved));
  if (made < 0 && made != -EEXIST) return failed("cannot make .verbena in it", -made);
  // Not a link to anywhere: the lock would be there.
  const UniqueFd reserved(files.open(root.get(), std::string(kReserved), O_RDONLY | O_DIRECTORY));
  if (!reserved.valid()) return failed("cannot open .verbena in it", -reserved.get());
  if (ignores_case(files, root.get())) {
    return fail(Error{
        Code::kUnsupported, fmt::format("directory {}: its file system ignores case", path), {}});
  }
  auto lock =
      store::FolderLock::take(path + "/" + std::string(kReserved), store::FolderLock::Mode::kWrite);
  if (!lock) {
    Error error = lock.error();
    error.what = fmt::format("directory {} behind a store: {}", path, error.what);
    return fail(std::move(error));
  }
  auto tier = std::make_unique<DirectoryImpl>(path, std::move(root), std::move(*lock), files);
  if (auto ready = tier->prepare(); !ready) return fail(ready.error());
  return tier;
}

DirectoryImpl::~DirectoryImpl() {
  if (left_over_.load(std::memory_order_relaxed)) return;
  const SplitPath mark = split(kClosedMark);
  const UniqueFd folder(open_folder(mark.folder));
  // Without it the next opening looks for what is left over, and finds nothing.
  if (folder.valid()) UniqueFd(files_.open(folder.get(), mark.file, O_CREAT | O_WRONLY, 0666));
}

Result<void> DirectoryImpl::prepare() {
  std::vector<UniqueFd> to_sync;
  for (const std::string_view folder : {kNamesFolder, kIdsFolder, kSumsFolder, kTemporaryFolder}) {
    if (const int error = make_folders(folder, to_sync); error < 0) {
      return fail(failed("cannot make it", folder, error));
    }
  }
  for (const UniqueFd& folder : to_sync) {
    if (auto synced = sync(folder.get(), kReserved); !synced) return synced;
  }
  if (auto known = check_format(); !known) return known;
  const SplitPath mark = split(kClosedMark);
  const UniqueFd folder(open_folder(mark.folder));
  if (!folder.valid()) return fail(failed("cannot open it", mark.folder, folder.get()));
  const int closed = files_.unlink(folder.get(), mark.file);
  if (closed == 0) return sync(folder.get(), mark.folder);
  if (closed != -ENOENT) return fail(failed("cannot remove it", kClosedMark, closed));
  return remove_left_over();
}

Result<State> DirectoryImpl::state(const Key& key) {
  auto found = find(key);
  if (!found) return fail(found.error());
  return found->state;
}

namespace {

// Reads CRCs from the file of sums, page by page.
class SumsReader {
 public:
  using ReadPage = std::function<Result<void>(uint64_t index, SumsPage& page)>;
  SumsReader(const SumsPage& first, ReadPage read) : page_(first), read_(std::move(read)) {}

  [[nodiscard]] Result<uint32_t> crc(uint64_t part) {
    const SumsPlace place = place_of(part);
    if (place.page != index_) {
      index_ = std::numeric_limits<uint64_t>::max();  // until it is read
      if (auto read = read_(place.page, page_); !read) return fail(read.error());
      index_ = place.page;
    }
    return crc_at(page_, place);
  }

 private:
  SumsPage page_;
  uint64_t index_ = 0;
  ReadPage read_;
};

}  // namespace

bool DirectoryImpl::goes_on(uint64_t version, uint64_t first, uint64_t count) {
  const MutexLock lock(ends_mutex_);
  const auto before = std::ranges::find(ends_, End{version, first});
  const bool found = before != ends_.end();
  if (found) *before = {};
  ends_[oldest_end_++ % ends_.size()] = {version, first + count};
  return first == 0 || found;
}

Result<void> DirectoryImpl::load(const Key& key, uint64_t version, uint64_t first,
                                 std::span<PartToLoad> parts) {
  auto found = find(key);
  if (!found) return fail(found.error());
  const State& state = found->state;
  const auto other = [&](const char* what) {
    return fail(conflict(fmt::format("{}/{}: {}", path_, found->path, what)));
  };
  if (state.version != version) return other("it is another version of the object");
  const uint64_t all = parts_of(state.size);
  if (first > all || parts.size() > all - first) {
    return fail(Error{Code::kInvalid, "parts after the end of the object", {}});
  }

  // Who reads so much at once, and in order, will want the same again.
  if (parts.size() >= kPartsToBegin) {
    const uint64_t more = goes_on(version, first, parts.size()) ? parts.size() : 0;
    const uint64_t end = std::min(all, first + parts.size() + more);
    files_.begin_read(found->file.get(), first * kPartBytes, (end - first) * kPartBytes);
  }
  std::vector<iovec> to;
  to.reserve(parts.size());
  size_t wanted = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const uint64_t offset = (first + i) * kPartBytes;
    const auto length = static_cast<size_t>(std::min<uint64_t>(kPartBytes, state.size - offset));
    std::memset(parts[i].bytes + length, 0, kPartBytes - length);
    to.push_back({parts[i].bytes, length});
    wanted += length;
  }
  auto read = read_all(found->file.get(), found->path, to, first * kPartBytes);
  if (!read) return fail(read.error());

  // What was read is of one state if the file is the same afterwards. An adopted file has no other
  // protection, so that its last change counts too: it is part of the version.
  struct stat after{};
  if (const int error = files_.status(found->file.get(), after); error < 0) {
    return fail(failed("cannot look at it", found->path, error));
  }
  const bool touched = after.st_ctim.tv_sec != found->status.st_ctim.tv_sec ||
                       after.st_ctim.tv_nsec != found->status.st_ctim.tv_nsec;
  // Being replaced changes it too: then the link count is another one, and the content is not.
  const bool replaced = after.st_nlink != found->status.st_nlink;
  if (!same_content(after, found->status) || *read != wanted ||
      (found->adopted && touched && !replaced)) {
    return other("it has changed while it was read");
  }

  SumsReader sums(found->first_page, [&](uint64_t index, SumsPage& page) -> Result<void> {
    if (auto done = read_page(found->sums.get(), found->sums_path, index, page); !done) return done;
    if (is_sealed(page, index)) return {};
    return fail(damaged(found->key, first_part_of(index) * kPartBytes, "file " + found->sums_path,
                        fmt::format("{}/{}: page {} of the checksums of {} is damaged", path_,
                                    found->sums_path, index, found->path)));
  });
  for (size_t i = 0; i < parts.size(); ++i) {
    parts[i].crc = store::crc_of({parts[i].bytes, kPartBytes});
    if (found->adopted) continue;
    auto expected = sums.crc(first + i);
    if (!expected) return fail(expected.error());
    if (*expected == parts[i].crc) continue;
    const uint64_t offset = (first + i) * kPartBytes;
    Error error = damaged(found->key, offset, "data CRC",
                          fmt::format("{}/{}: damaged at offset {}: CRC {:08x}, expected {:08x}",
                                      path_, found->path, offset, parts[i].crc, *expected));
    error.damage.expected = fmt::format("{:08x}", *expected);
    error.damage.actual = fmt::format("{:08x}", parts[i].crc);
    return fail(std::move(error));
  }
  return {};
}

// If another program has made a file of a name that was escaped before, the escaped one must not
// appear again when that one goes.
void DirectoryImpl::remove_hidden(const FoundFile& found) {
  if (found.key.name.empty()) return;
  const std::string escaped = escaped_path(found.key.name);
  struct stat status{};
  if (escaped == found.path || status_of(escaped, status) != 0) return;
  remove_quietly(escaped);
  left_over_.store(true, std::memory_order_relaxed);  // its sums
}

Result<void> DirectoryImpl::remove(const Key& key, uint64_t version) {
  UniqueFd folder;
  std::string path;
  std::string sums;
  {
    const MutexLock lock(names_);
    auto found = find(key);
    if (!found && found.error().code == Code::kNotFound) return {};
    if (!found) return fail(found.error());
    path = found->path;
    if (found->state.version != version) {
      return fail(conflict(fmt::format("{}/{}: it is another version of the object", path_, path)));
    }
    if (!found->adopted) sums = found->sums_path;
    remove_hidden(*found);
    const SplitPath parts = split(path);
    folder = UniqueFd(open_folder(parts.folder));
    if (!folder.valid()) return fail(failed("cannot open its folder", path, folder.get()));
    const int error = files_.unlink(folder.get(), parts.file);
    if (error < 0 && error != -ENOENT) return fail(failed("cannot remove it", path, error));
  }
  if (auto synced = sync(folder.get(), path); !synced) {
    left_over_.store(true, std::memory_order_relaxed);
    return synced;
  }
  // Only now: if the file came back after a crash, it would come back with its sums.
  if (!sums.empty()) remove_quietly(sums);
  const MutexLock lock(names_);
  remove_empty_folders(split(path).folder);
  return {};
}

Result<std::unique_ptr<Update>> DirectoryImpl::update(const Key& key, const NewState& wanted) {
  auto update = std::make_unique<DirectoryUpdate>(*this, key, wanted);
  if (auto begun = update->begin(); !begun) return fail(begun.error());
  return update;
}

}  // namespace verbena::backend
