// SPDX-License-Identifier: Apache-2.0
#include "transfer/sink.h"

#include <atomic>
#include <cerrno>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/block_sums.h"

namespace verbena::transfer {
namespace {

constexpr size_t kRecentFolders = 32;
constexpr mode_t kUnknownMode = ~mode_t{0};

JobResult stored() { return {}; }

// Of remembering a folder.
size_t cost_of(const std::string& folder) { return folder.size() + 100; }

JobResult failed(std::string_view what, int error) {
  const Verdict verdict = error == ENOSPC || error == EDQUOT || error == EFBIG ? Verdict::kFull
                          : error == EEXIST                                    ? Verdict::kExists
                                                                               : Verdict::kFailed;
  return {verdict, fmt::format("{}: {}", what, std::strerror(error)), {}};
}

JobResult damaged() {
  return {Verdict::kDamaged, "the data that arrived does not match its CRC", {}};
}

bool write_all(int fd, std::span<const uint8_t> data, uint64_t offset) {
  while (!data.empty()) {
    const ssize_t done = pwrite(fd, data.data(), data.size(), static_cast<off_t>(offset));
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) return false;
    data = data.subspan(static_cast<size_t>(done));
    offset += static_cast<uint64_t>(done);
  }
  return true;
}

// CRCs of the chunks that the file has.
bool read_crcs(int fd, uint64_t size, uint32_t chunk_bytes, std::vector<uint32_t>& crcs) {
  std::vector<uint8_t> buffer(chunk_bytes);
  const uint32_t zeros = crc_of_zeros(chunk_bytes);
  for (uint64_t at = 0; at < size; at += chunk_bytes) {
    const auto length = static_cast<size_t>(std::min<uint64_t>(chunk_bytes, size - at));
    const off_t data = lseek(fd, static_cast<off_t>(at), SEEK_DATA);
    if (data < 0 ? errno == ENXIO : static_cast<uint64_t>(data) >= at + length) {
      crcs.push_back(length == chunk_bytes ? zeros : crc_of_zeros(length));
      continue;
    }
    size_t have = 0;
    while (have < length) {
      const ssize_t got =
          pread(fd, buffer.data() + have, length - have, static_cast<off_t>(at + have));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      have += static_cast<size_t>(got);
    }
    crcs.push_back(crc_of(std::span(buffer).first(length)));
  }
  return true;
}

}  // namespace

SinkFile::~SinkFile() {
  if (!stays_ || (named_ && is_stored())) remove_name();
}

// Another attempt, which began before this one was given up, has completed it.
bool SinkFile::is_stored() const {
  struct stat status{};
  return fstatat(folder_->get(), name_.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
         S_ISREG(status.st_mode) && static_cast<uint64_t>(status.st_size) == size_ &&
         status.st_mtim.tv_sec == static_cast<time_t>(attributes_.modified_s) &&
         status.st_mtim.tv_nsec == static_cast<long>(attributes_.modified_ns);
}

void SinkFile::take(NewPart part) {
  fd_ = std::move(part.fd);
  temporary_ = std::move(part.name);
}

// It is locked, so the name is its own.
void SinkFile::remove_name() {
  if (named_.exchange(false)) unlinkat(folder_->get(), temporary_.c_str(), 0);
}

Result<std::unique_ptr<Sink>, std::string> Sink::open(const std::string& path,
                                                      const SinkOptions& options) {
  UniqueFd root(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!root.valid()) {
    return fail(fmt::format("cannot open folder '{}': {}", path, std::strerror(errno)));
  }
  return std::unique_ptr<Sink>(new Sink(std::move(root), options));
}

// --- where

std::shared_ptr<UniqueFd> Sink::recent(const std::string& folders) {
  const MutexLock lock(mutex_);
  for (auto at = recent_.begin(); at != recent_.end(); ++at) {
    if (at->first != folders) continue;
    struct stat status{};
    // Somebody may have removed it.
    if (fstat(at->second->get(), &status) == 0 && status.st_nlink > 0) {
      recent_.splice(recent_.begin(), recent_, at);
      return at->second;
    }
    recent_.erase(at);
    break;
  }
  return nullptr;
}

Result<std::shared_ptr<UniqueFd>, JobResult> Sink::walk(const std::string& folders) {
  if (auto known = recent(folders)) return known;
  auto here = std::make_shared<UniqueFd>(fcntl(root_.get(), F_DUPFD_CLOEXEC, 0));
  for (size_t at = 0; at < folders.size();) {
    const size_t end = std::min(folders.find('/', at), folders.size());
    const std::string part = folders.substr(at, end - at);
    at = end + 1;
    if (mkdirat(here->get(), part.c_str(), 0777) == 0) {
      remember_made(folders.substr(0, end));
      if (options_.sync && fsync(here->get()) != 0) {
        return fail(failed("cannot write the folder", errno));
      }
    } else if (errno != EEXIST) {
      return fail(failed(fmt::format("cannot make folder '{}'", part), errno));
    }
    UniqueFd next(
        openat(here->get(), part.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
    if (!next.valid()) {
      const bool link = errno == ELOOP || errno == ENOTDIR;
      return fail(
          link ? JobResult{Verdict::kRefused, fmt::format("'{}' is no folder, or a link", part), {}}
               : failed(fmt::format("cannot open folder '{}'", part), errno));
    }
    *here = std::move(next);
  }
  if (!here->valid()) return fail(failed("cannot open the folder", errno));
  const MutexLock lock(mutex_);
  recent_.emplace_front(folders, here);
  if (recent_.size() > kRecentFolders) recent_.pop_back();
  return here;
}

void Sink::remember_made(std::string folder) {
  constexpr size_t kMostBytes = 64u << 20;  // a sender decides how many there are
  const MutexLock lock(mutex_);
  if (made_bytes_ > kMostBytes) return;
  const size_t cost = cost_of(folder);
  if (made_.insert(std::move(folder)).second) made_bytes_ += cost;
}

bool Sink::forget_made(const std::string& folder) {
  const MutexLock lock(mutex_);
  if (made_.erase(folder) == 0) return false;
  made_bytes_ -= cost_of(folder);
  return true;
}

Result<Sink::Place, JobResult> Sink::find_place(const std::string& path) {
  const size_t slash = path.rfind('/');
  auto folder = walk(slash == std::string::npos ? std::string() : path.substr(0, slash));
  if (!folder) return fail(folder.error());
  return Place{std::move(*folder), slash == std::string::npos ? path : path.substr(slash + 1)};
}

// Whether a file may be stored under the name; again when it is, for somebody may be quicker.
JobResult Sink::check_free(const Place& place) const {
  struct stat status{};
  if (fstatat(place.folder->get(), place.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) != 0) {
    return errno == ENOENT ? stored() : failed("cannot look for it", errno);
  }
  if (S_ISDIR(status.st_mode)) return {Verdict::kExists, "there is a folder of this name", {}};
  if (options_.overwrite) return stored();
  return {Verdict::kExists, "there is a file of this name (see --overwrite)", {}};
}

JobResult Sink::put_in_place(const UniqueFd& folder, const std::string& temporary,
                             const std::string& name) const {
  const unsigned flags = options_.overwrite ? 0 : RENAME_NOREPLACE;
  bool placed = renameat2(folder.get(), temporary.c_str(), folder.get(), name.c_str(), flags) == 0;
  if (!placed && flags != 0 && (errno == EINVAL || errno == ENOSYS)) {  // the file system cannot
    placed = linkat(folder.get(), temporary.c_str(), folder.get(), name.c_str(), 0) == 0;
    if (placed) unlinkat(folder.get(), temporary.c_str(), 0);
  }
  if (placed) {
    if (!options_.sync || fsync(folder.get()) == 0) return stored();
    return failed("cannot write the folder", errno);
  }
  if (errno == EEXIST) {
    return {Verdict::kExists, "there is a file of this name (see --overwrite)", {}};
  }
  return failed("cannot rename it", errno);
}

JobResult Sink::dress(int fd, const Attributes& attributes, mode_t has) const {
  const mode_t mode = attributes.mode & kModeBits;
  if (mode != has && fchmod(fd, mode) != 0) return failed("cannot set its mode", errno);
  const timespec modified{.tv_sec = static_cast<time_t>(attributes.modified_s),
                          .tv_nsec = static_cast<long>(attributes.modified_ns)};
  const timespec times[2] = {{.tv_sec = 0, .tv_nsec = UTIME_OMIT}, modified};
  if (futimens(fd, times) != 0) return failed("cannot set its time", errno);
  if (options_.sync && fsync(fd) != 0) return failed("cannot write it to the disk", errno);
  return stored();
}

// --- files in chunks

JobResult Sink::open_file(const OpenFile& open, uint32_t chunk_bytes,
                          std::shared_ptr<SinkFile>& file) {
  auto place = find_place(open.path);
  if (!place) return place.error();
  if (JobResult free = check_free(*place); free.verdict != Verdict::kStored) return free;
  auto made = std::make_shared<SinkFile>();
  made->folder_ = place->folder;
  made->name_ = place->name;
  made->temporary_ = resumable_part_name(place->name, open.size, open.attributes);
  made->size_ = open.size;
  made->attributes_ = open.attributes;
  constexpr int kFlags = O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC;
  made->fd_ = UniqueFd(openat(place->folder->get(), made->temporary_.c_str(), kFlags, 0600));
  struct stat status{};
  made->stays_ =
      made->fd_.valid() && lock_part(made->fd_.get(), *made->folder_, made->temporary_, status);
  // Another transfer of the same file has it: this one begins anew.
  if (made->fd_.valid() && !made->stays_) {
    status = {};
    made->anew_ = true;
    made->take(make_part(*place->folder, 0600));
  }
  if (!made->fd_.valid()) return failed("cannot make it", errno);
  made->named_ = true;
  JobResult result;
  made->fresh_ = status.st_size == 0;
  const bool whole = static_cast<uint64_t>(status.st_size) == open.size && !made->fresh_;
  if (!whole || !open.resume || chunk_bytes == 0 ||
      !read_crcs(made->fd_.get(), open.size, chunk_bytes, result.crcs)) {
    result.crcs.clear();
    if (ftruncate(made->fd_.get(), 0) != 0 ||
        ftruncate(made->fd_.get(), static_cast<off_t>(open.size)) != 0) {
      result = failed("cannot make it as large", errno);
      made->stays_ = false;
      return result;
    }
    made->fresh_ = true;
  }
  file = std::move(made);
  return result;
}

JobResult Sink::open_plain(const std::string& path, std::shared_ptr<SinkFile>& file) {
  auto place = find_place(path);
  if (!place) return place.error();
  if (JobResult free = check_free(*place); free.verdict != Verdict::kStored) return free;
  auto made = std::make_shared<SinkFile>();
  made->folder_ = place->folder;
  made->name_ = place->name;
  made->take(make_part(*place->folder, 0644));
  if (!made->fd_.valid()) return failed("cannot make it", errno);
  made->named_ = true;
  file = std::move(made);
  return {};
}

JobResult Sink::write(SinkFile& file, uint64_t offset, std::span<const uint8_t> data,
                      uint32_t crc) {
  if (crc_of(data) != crc) return damaged();
  if (write_all(file.fd_.get(), data, offset)) return {};
  return failed("cannot write it", errno);
}

JobResult Sink::append(SinkFile& file, std::span<const uint8_t> data) {
  if (!write_all(file.fd_.get(), data, file.size_)) return failed("cannot write it", errno);
  file.size_ += data.size();
  return {};
}

JobResult Sink::punch(SinkFile& file, uint64_t offset, uint64_t length) {
  if (file.fresh_) return {};
  if (fallocate(file.fd_.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                static_cast<off_t>(offset), static_cast<off_t>(length)) == 0) {
    return {};
  }
  const std::vector<uint8_t> zeros(64 << 10);
  for (uint64_t at = 0; at < length; at += zeros.size()) {
    const auto part = std::span(zeros).first(std::min<uint64_t>(zeros.size(), length - at));
    if (!write_all(file.fd_.get(), part, offset + at)) return failed("cannot write it", errno);
  }
  return {};
}

JobResult Sink::close(SinkFile& file) {
  if (JobResult dressed = dress(file.fd_.get(), file.attributes_, kUnknownMode);
      dressed.verdict != Verdict::kStored) {
    return dressed;
  }
  JobResult placed = put_in_place(*file.folder_, file.temporary_, file.name_);
  if (placed.verdict == Verdict::kStored) {
    file.named_ = false;
    if (file.anew_) {
      remove_part(*file.folder_, resumable_part_name(file.name_, file.size_, file.attributes_));
    }
  } else if (placed.verdict == Verdict::kExists) {
    remove(file);
  }
  return placed;
}

void Sink::remove(SinkFile& file) { file.remove_name(); }

// --- whole files, folders

JobResult Sink::store_small(const StoreSmall& small) {
  auto place = find_place(small.path);
  if (!place) return place.error();
  if (JobResult free = check_free(*place); free.verdict != Verdict::kStored) return free;
  const auto [fd, temporary, mode] = make_part(*place->folder, small.attributes.mode & kModeBits);
  if (!fd.valid()) return failed("cannot make it", errno);
  JobResult result;
  // Of what is stored: the sender could change it while it is compared.
  std::vector<uint8_t> data(small.data.size());
  const uint32_t state = crc32_msb_copy(kCrc32Start, data.data(), small.data);
  if (crc32_finish(state) != small.crc) {
    result = damaged();
  } else if (!write_all(fd.get(), data, 0)) {
    result = failed("cannot write it", errno);
  } else if (result = dress(fd.get(), small.attributes, mode); result.verdict == Verdict::kStored) {
    result = put_in_place(*place->folder, temporary, place->name);
  }
  if (result.verdict != Verdict::kStored) unlinkat(place->folder->get(), temporary.c_str(), 0);
  return result;
}

// It comes when all that is in it is there. One that is not of this transfer stays as it is.
JobResult Sink::make_folder(const MakeFolder& folder) {
  const auto made = walk(folder.path);
  if (!made) return made.error();
  if (!forget_made(folder.path) && !options_.overwrite) return stored();
  return dress((*made)->get(), folder.attributes, kUnknownMode);
}

size_t Sink::remove_stale(const std::atomic<bool>& stop) const {
  return remove_stale_parts(root_, options_.keep_seconds, stop);
}

}  // namespace verbena::transfer
