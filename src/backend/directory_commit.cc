// SPDX-License-Identifier: Apache-2.0
// Completes an update and puts it in place. Each step makes durable what the next one relies on:
//
//   1. file: what stays of the base (or of the source), times, fsync
//   2. sums: written, fsync, renamed to their place, fsync of the folder
//   3. the file is renamed over the object; fsync of the folder
//   4. the sums of the base are removed
//
// Before 3 the object is the base, with its sums; after it, it is the new version, with its own.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <limits>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "backend/directory_update.h"
#include "store/crc_parts.h"

namespace verbena::backend {

Result<void> DirectoryUpdate::commit() {
  {
    const MutexLock lock(mutex_);
    if (error_) return fail(*error_);
    error_ = Error{Code::kInvalid, "the update was committed before", {}};
  }
  if (auto kept = keep_parts(); !kept) return kept;
  if (auto cut = cut_last_part(); !cut) return cut;
  if (auto summed = sum_kept_parts(); !summed) return summed;
  if (auto set = set_attributes(); !set) return set;
  if (auto synced = tier_.sync(file_.fd.get(), file_.path); !synced) return synced;
  if (auto written = write_sums(); !written) return written;
  if (auto placed = place_sums(); !placed) return placed;
  return place_file();
}

Result<void> DirectoryUpdate::keep_parts() {
  if (from_ == nullptr) return {};
  if (!cloned_) {
    std::vector<PartRange> kept;
    {
      const MutexLock lock(mutex_);
      kept = written_.gaps(0, parts_of(common_bytes()));
    }
    for (const PartRange& range : kept) {
      const uint64_t end = std::min(range.end * kPartBytes, common_bytes());
      auto copied = copy(from_->file.get(), file_, range.first * kPartBytes, end);
      if (!copied) return copied;
    }
  }
  struct stat now{};
  if (const int error = tier_.files_.status(from_->file.get(), now); error < 0) {
    return fail(tier_.failed("cannot look at it", from_->path, error));
  }
  return check_same(*from_, now);
}

// Another program may change it at any time.
Result<void> DirectoryUpdate::check_same(const FoundFile& found, const struct stat& now) const {
  const bool touched = now.st_ctim.tv_sec != found.status.st_ctim.tv_sec ||
                       now.st_ctim.tv_nsec != found.status.st_ctim.tv_nsec;
  if (same_content(now, found.status) && !(found.adopted && touched)) return {};
  return fail(conflict(found.path));
}

// An object that becomes shorter, in the middle of a part that stays: the rest of this part is
// zeros now. What was there is verified first, so that damage does not get a right CRC.
Result<void> DirectoryUpdate::cut_last_part() {
  if (from_ == nullptr || from_->adopted || size() >= from_->state.size ||
      size() % kPartBytes == 0) {
    return {};
  }
  const uint64_t part = size() / kPartBytes;
  const uint64_t offset = part * kPartBytes;
  const MutexLock lock(mutex_);
  if (written_.covers(part, part + 1)) return {};
  auto page = draft_.find(place_of(part).page);
  if (!page) return fail(page.error());

  std::vector<uint8_t> bytes(kPartBytes);
  std::vector<iovec> to{{bytes.data(), static_cast<size_t>(std::min<uint64_t>(
                                           kPartBytes, from_->state.size - offset))}};
  auto read = tier_.read_all(from_->file.get(), from_->path, to, offset);
  if (!read) return fail(read.error());
  if ((*page)->base_damaged || store::crc_of(bytes) != crc_at((*page)->bytes, place_of(part))) {
    return fail(tier_.damaged(
        from_->key, offset, "data CRC",
        fmt::format("{}/{}: damaged at offset {}", tier_.path_, from_->path, offset)));
  }
  std::fill(bytes.begin() + static_cast<ptrdiff_t>(size() - offset), bytes.end(), uint8_t{0});
  set_crc((*page)->bytes, place_of(part), store::crc_of(bytes));
  return {};
}

// Those of a file that was adopted are not known yet. They are made of what is in the new file,
// whatever becomes of the old one.
Result<void> DirectoryUpdate::sum_kept_parts() {
  if (from_ == nullptr || !from_->adopted) return {};
  std::vector<PartRange> kept;
  {
    const MutexLock lock(mutex_);
    kept = written_.gaps(0, parts_of(common_bytes()));
  }
  for (const PartRange& range : kept) {
    if (auto summed = sum_parts(range); !summed) return summed;
  }
  return {};
}

Result<void> DirectoryUpdate::sum_parts(PartRange parts) {
  constexpr uint64_t kAtOnce = 256;
  std::vector<uint8_t> bytes;
  while (parts.first < parts.end) {
    const off_t data =
        lseek(file_.fd.get(), static_cast<off_t>(parts.first * kPartBytes), SEEK_DATA);
    if (data < 0 && errno == ENXIO) return {};
    // Parts that are holes are zeros in the sums already.
    if (data >= 0) parts.first = std::max(parts.first, static_cast<uint64_t>(data) / kPartBytes);
    const uint64_t count = std::min(kAtOnce, parts.end - std::min(parts.end, parts.first));
    if (count == 0) return {};
    bytes.assign(count * kPartBytes, 0);
    std::vector<iovec> to{{bytes.data(), bytes.size()}};
    auto read = tier_.read_all(file_.fd.get(), file_.path, to, parts.first * kPartBytes);
    if (!read) return fail(read.error());
    const MutexLock lock(mutex_);
    for (uint64_t i = 0; i < count; ++i) {
      const auto part = std::span(bytes).subspan(i * kPartBytes, kPartBytes);
      if (auto set = draft_.set(parts.first + i, store::crc_of(part)); !set) return set;
    }
    parts.first += count;
  }
  return {};
}

Result<void> DirectoryUpdate::set_attributes() {
  if (from_ != nullptr) {
    constexpr mode_t kBits = 07777;
    const struct stat& its = base_ ? base_->status : from_->status;
    // Only root can give a file away; others keep what is theirs. It comes before the mode, of
    // which it removes bits.
    static_cast<void>(tier_.files_.set_owner(file_.fd.get(), its.st_uid, its.st_gid));
    if (const int error = tier_.files_.set_mode(file_.fd.get(), its.st_mode & kBits); error < 0) {
      return fail(tier_.failed("cannot set its mode", file_.path, error));
    }
  }
  return set_time();
}

// The time tells the sums of the base from those of the new version, so it must be another one.
// File systems keep times in steps of up to two seconds, and within limits: then it is moved.
Result<void> DirectoryUpdate::set_time() {
  const auto wanted = static_cast<int64_t>(
      std::min<uint64_t>(wanted_.state.modified_ns, std::numeric_limits<int64_t>::max() / 2));
  const int64_t now_ns = std::chrono::duration_cast<std::chrono::nanoseconds>(
                             std::chrono::system_clock::now().time_since_epoch())
                             .count();
  constexpr int64_t kSecond = 1'000'000'000;
  for (const int64_t ns : {wanted, wanted + 1, wanted + 1000, wanted + kSecond / 100,
                           wanted + kSecond, wanted + 2 * kSecond, now_ns, now_ns + 2 * kSecond}) {
    int error = tier_.files_.set_modified(file_.fd.get(), ns);
    if (error == 0) error = tier_.files_.status(file_.fd.get(), made_);
    if (error < 0) return fail(tier_.failed("cannot set its time", file_.path, error));
    if (!base_ || modified_ns_of(made_) != modified_ns_of(base_->status)) return {};
  }
  return fail(Error{Code::kUnsupported,
                    fmt::format("directory {}: its file system keeps no times", tier_.path_),
                    {}});
}

Result<void> DirectoryUpdate::write_sums() {
  if (auto made = make(sums_, 0666); !made) return made;
  const uint64_t parts = parts_of(size());
  const uint64_t pages = pages_for(parts);
  const MutexLock lock(mutex_);
  if (const int error = tier_.files_.truncate(sums_.fd.get(), pages * kSumsPageBytes); error < 0) {
    return fail(tier_.failed("cannot make it as large", sums_.path, error));
  }
  const uint64_t kept_pages = std::min(draft_.base_pages(), pages);
  // Page 0 is always written.
  auto copied = copy(kept_pages > 0 ? from_->sums.get() : -1, sums_,
                     kept_pages > 0 ? kSumsPageBytes : 0, kept_pages * kSumsPageBytes);
  if (!copied) return copied;
  for (const PartRange& holes : draft_.hole_pages()) {
    auto zeroed =
        zero(sums_, holes.first * kSumsPageBytes, std::min(holes.end, kept_pages) * kSumsPageBytes);
    if (!zeroed) return zeroed;
  }
  auto first = draft_.find(0);
  if (!first) return fail(first.error());
  encode({.key = key_, .state = wanted_.state, .file_modified_ns = modified_ns_of(made_)},
         (*first)->bytes);
  // Entries after the end are zeros, so that an object that grows again has holes there.
  auto last = draft_.find(pages - 1);
  if (!last) return fail(last.error());
  for (uint64_t part = parts; part < first_part_of(pages); ++part) {
    set_hole((*last)->bytes, place_of(part));
  }
  if (auto written = write_pages(); !written) return written;
  return tier_.sync(sums_.fd.get(), sums_.path);
}

Result<void> DirectoryUpdate::write_pages() {
  const uint64_t parts = parts_of(size());
  for (auto& [index, page] : draft_.pages()) {
    const uint64_t first = first_part_of(index);
    if (page.base_damaged && !written_.covers(first, std::min(parts, first + parts_in(index)))) {
      return fail(tier_.damaged(from_->key, first * kPartBytes, "file " + from_->sums_path,
                                fmt::format("{}/{}: page {} of the checksums of {} is damaged",
                                            tier_.path_, from_->sums_path, index, from_->path)));
    }
    seal(page.bytes, index);
    std::vector<iovec> from{{page.bytes.data(), page.bytes.size()}};
    auto written = tier_.write_all(sums_.fd.get(), sums_.path, from, index * kSumsPageBytes);
    if (!written) return written;
  }
  return {};
}

// A file of this name can only be left over from an update that failed: the time and size are those
// of the new version.
Result<void> DirectoryUpdate::place_sums() {
  const std::string path = sums_path(key_, modified_ns_of(made_), size());
  const SplitPath to = split(path);
  const SplitPath from = split(sums_.path);
  std::vector<UniqueFd> to_sync;
  int error = tier_.make_folders(to.folder, to_sync);
  UniqueFd folder(error < 0 ? error : tier_.open_folder(to.folder));
  const UniqueFd temporary(tier_.open_folder(from.folder));
  error = std::min({error, folder.get(), temporary.get(), 0});
  if (error == 0) {
    error = tier_.files_.rename(temporary.get(), from.file, folder.get(), to.file, 0);
  }
  if (error < 0) return fail(tier_.failed("cannot rename its checksums", path, error));
  sums_.named = false;
  sums_placed_ = path;
  to_sync.push_back(std::move(folder));
  for (const UniqueFd& changed : to_sync) {
    if (auto synced = tier_.sync(changed.get(), path); !synced) return synced;
  }
  return {};
}

Result<void> DirectoryUpdate::place_file() {
  std::vector<UniqueFd> to_sync;
  {
    const MutexLock lock(tier_.names_);
    auto placed = base_ ? replace_base(to_sync) : place_new(to_sync);
    if (!placed) return placed;
  }
  file_.named = false;
  sums_placed_.clear();
  for (const UniqueFd& changed : to_sync) {
    auto synced = tier_.sync(changed.get(), base_ ? base_->path : key_.name);
    if (synced) continue;
    // Either version may be there after a crash, so that both have their sums.
    tier_.left_over_.store(true, std::memory_order_relaxed);
    return synced;
  }
  if (base_ && !base_->adopted) tier_.remove_quietly(base_->sums_path);
  return {};
}

int DirectoryUpdate::rename_to(const std::string& path, std::vector<UniqueFd>& to_sync) {
  const SplitPath from = split(file_.path);
  const SplitPath to = split(path);
  if (!base_) {
    if (const int error = tier_.make_folders(to.folder, to_sync); error < 0) return error;
  }
  UniqueFd folder(tier_.open_folder(to.folder));
  const UniqueFd temporary(tier_.open_folder(from.folder));
  if (const int error = std::min(folder.get(), temporary.get()); error < 0) return error;
  const auto rename = [&](unsigned flags) {
    return tier_.files_.rename(temporary.get(), from.file, folder.get(), to.file, flags);
  };
  int error = rename(base_ ? 0 : RENAME_NOREPLACE);
  if (!base_ && (error == -EINVAL || error == -ENOSYS)) {  // the file system cannot
    struct stat status{};
    error = tier_.files_.status(folder.get(), to.file, status) == 0 ? -EEXIST : rename(0);
  }
  if (error < 0) {
    // It may have been done all the same. If that cannot be told, the sums stay for the next
    // opening.
    struct stat status{};
    const int looked = tier_.files_.status(folder.get(), to.file, status);
    if (looked == 0 && status.st_dev == made_.st_dev && status.st_ino == made_.st_ino) error = 0;
    if (looked < 0 && looked != -ENOENT) {
      sums_placed_.clear();
      tier_.left_over_.store(true, std::memory_order_relaxed);
    }
  }
  if (error == 0) to_sync.push_back(std::move(folder));
  return error;
}

// Another program may still change the file between the check and the rename; what it has written
// in this instant is replaced, as if it had been a little earlier.
Result<void> DirectoryUpdate::replace_base(std::vector<UniqueFd>& to_sync) {
  struct stat now{};
  const int gone = tier_.status_of(base_->path, now);
  if (gone == -ENOENT || gone == -ENOTDIR || gone == -ELOOP) return fail(conflict(base_->path));
  if (gone < 0) return fail(tier_.failed("cannot look at it", base_->path, gone));
  if (auto same = check_same(*base_, now); !same) return same;
  if (const int error = rename_to(base_->path, to_sync); error < 0) {
    return fail(tier_.failed("cannot replace it", base_->path, error));
  }
  return {};
}

Result<void> DirectoryUpdate::place_new(std::vector<UniqueFd>& to_sync) {
  auto found = tier_.find(key_);
  if (found) return fail(conflict(found->path));
  if (found.error().code != Code::kNotFound) return fail(found.error());
  const auto plain = plain_path(key_.name);
  std::string path = key_.name.empty() ? id_path(key_.id)
                     : plain           ? *plain
                                       : escaped_path(key_.name);
  int error = rename_to(path, to_sync);
  // A file where a folder should be, or the other way round, or a link, or something else.
  const bool in_the_way =
      error == -EEXIST || error == -ENOTDIR || error == -ELOOP || error == -EISDIR;
  if (in_the_way && plain && !key_.name.empty()) {
    tier_.remove_empty_folders(split(path).folder);
    struct stat status{};
    if (tier_.status_of(path, status) == 0 && S_ISREG(status.st_mode)) return fail(conflict(path));
    path = escaped_path(key_.name);
    error = rename_to(path, to_sync);
  }
  if (error == 0) return {};
  tier_.remove_empty_folders(split(path).folder);
  if (error == -EEXIST) return fail(conflict(path));
  return fail(tier_.failed("cannot name it", path, error));
}

}  // namespace verbena::backend
