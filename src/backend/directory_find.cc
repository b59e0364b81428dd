// SPDX-License-Identifier: Apache-2.0
// From a key to an open file, its state and its sums; and the errors on the way.
#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <cstring>

#include <fcntl.h>
#include <fmt/format.h>
#include <openssl/evp.h>

#include "backend/directory_impl.h"
#include "base/check.h"
#include "base/endian.h"
#include "store/record.h"

namespace verbena::backend {
namespace {

// A file that is replaced again and again while it is looked at: each time is an update of it.
constexpr int kMostTries = 1000;
// Versions of adopted files that are remembered, so that each is counted once.
constexpr size_t kMostAdopted = 1'000'000;

constexpr int64_t kSecondNs = 1'000'000'000;

[[nodiscard]] int64_t ns_of(const timespec& time) {
  return int64_t{time.tv_sec} * kSecondNs + time.tv_nsec;
}

// Changes whenever the file does: even if somebody sets the time of modification back, the kernel
// sets that of the last change, which nobody can choose.
[[nodiscard]] uint64_t adopted_version(const struct stat& status) {
  std::array<uint8_t, 32> facts{};
  store_be64(facts.data(), static_cast<uint64_t>(modified_ns_of(status)));
  store_be64(facts.data() + 8, static_cast<uint64_t>(ns_of(status.st_ctim)));
  store_be64(facts.data() + 16, static_cast<uint64_t>(status.st_size));
  store_be64(facts.data() + 24, static_cast<uint64_t>(status.st_ino));
  std::array<uint8_t, EVP_MAX_MD_SIZE> digest{};
  VERBENA_CHECK(
      EVP_Digest(facts.data(), facts.size(), digest.data(), nullptr, EVP_sha256(), nullptr) == 1);
  return std::max<uint64_t>(load_be64(digest.data()), 1);
}

[[nodiscard]] Code code_of(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT: return Code::kFull;
    case ENOMEM:
    case EMFILE:
    case ENFILE: return Code::kNoMemory;
    case EROFS:  return Code::kReadOnly;
    case EFBIG:
    case EXDEV:  return Code::kUnsupported;
    default:     return Code::kIo;
  }
}

[[nodiscard]] const char* advice_for(int error) {
  switch (error) {
    case ENOSPC: return " (free some space; nothing is lost, it is tried again)";
    case EACCES:
    case EPERM:  return " (the server's user may not do this here: see owner and mode)";
    case EROFS:  return " (mounted read-only, perhaps after an error of the disk)";
    case EFBIG:  return " (larger than a file of this file system can be)";
    case EXDEV:  return " (another file system is mounted in the directory)";
    default:     return "";
  }
}

}  // namespace

int64_t modified_ns_of(const struct stat& status) { return ns_of(status.st_mtim); }

bool same_content(const struct stat& a, const struct stat& b) {
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino && a.st_size == b.st_size &&
         ns_of(a.st_mtim) == ns_of(b.st_mtim);
}

Error DirectoryImpl::failed(std::string_view what, std::string_view path, int error) const {
  return {
      code_of(-error),
      fmt::format("{}/{}: {}: {}{}", path_, path, what, std::strerror(-error), advice_for(-error)),
      {}};
}

Error DirectoryImpl::damaged(const Key& key, uint64_t offset, std::string field,
                             std::string what) const {
  Error error{Code::kDamaged, std::move(what), {}};
  error.damage.object = key.id;
  error.damage.offset = offset;
  error.damage.field = std::move(field);
  return error;
}

int DirectoryImpl::open_folder(std::string_view path) {
  constexpr int kFlags = O_RDONLY | O_DIRECTORY;
  UniqueFd here(files_.open(root_.get(), ".", kFlags));
  while (here.valid() && !path.empty()) {
    const size_t end = std::min(path.find('/'), path.size());
    const int next = files_.open(here.get(), std::string(path.substr(0, end)), kFlags);
    if (next < 0) return next;
    here = UniqueFd(next);
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return here.release();
}

int DirectoryImpl::open_file(std::string_view path, int flags) {
  const SplitPath parts = split(path);
  const UniqueFd folder(open_folder(parts.folder));
  if (!folder.valid()) return folder.get();
  // A pipe would block without O_NONBLOCK.
  return files_.open(folder.get(), parts.file, flags | O_NONBLOCK);
}

int DirectoryImpl::status_of(std::string_view path, struct stat& status) {
  const SplitPath parts = split(path);
  const UniqueFd folder(open_folder(parts.folder));
  if (!folder.valid()) return folder.get();
  return files_.status(folder.get(), parts.file, status);
}

Result<FoundFile> DirectoryImpl::find(const Key& key) {
  if (!store::good_name(key.name)) {
    return fail(Error{Code::kInvalid, "invalid object name: not UTF-8, or too long", {}});
  }
  if (key.name.empty()) return open_object(key, id_path(key.id));
  // What has the object's name is the object. Only what cannot be there is elsewhere.
  if (const auto plain = plain_path(key.name)) {
    auto found = open_object(key, *plain);
    if (found || found.error().code != Code::kNotFound) return found;
  }
  return open_object(key, escaped_path(key.name));
}

Result<FoundFile> DirectoryImpl::open_object(const Key& key, const std::string& path) {
  const auto not_found = [&] {
    return fail(Error{Code::kNotFound, fmt::format("{}/{}: no such object", path_, path), {}});
  };
  for (int tries = 0; tries < kMostTries; ++tries) {
    FoundFile found;
    found.key = key;
    found.path = path;
    const int fd = open_file(path, O_RDONLY);
    // A link, or a socket, is not an object, and neither is anything behind a link.
    if (fd == -ENOENT || fd == -ENOTDIR || fd == -ELOOP || fd == -ENXIO) return not_found();
    if (fd < 0) return fail(failed("cannot open it", path, fd));
    found.file = UniqueFd(fd);
    if (const int error = files_.status(fd, found.status); error < 0) {
      return fail(failed("cannot look at it", path, error));
    }
    if (!S_ISREG(found.status.st_mode)) return not_found();
    auto done = find_sums(found);
    if (!done) return fail(done.error());
    if (*done) return found;
  }
  return fail(Error{Code::kConflict, fmt::format("{}/{}: changes all the time", path_, path), {}});
}

Result<bool> DirectoryImpl::find_sums(FoundFile& found) {
  const auto size = static_cast<uint64_t>(found.status.st_size);
  const int64_t modified_ns = modified_ns_of(found.status);
  found.sums_path = sums_path(found.key, modified_ns, size);
  const int fd = open_file(found.sums_path, O_RDONLY);
  if (fd == -ENOENT) {
    // Either nobody has written sums, or an update has replaced the file since it was opened and
    // removed them: then the path is that of another file now.
    struct stat now{};
    const int error = status_of(found.path, now);
    if (error == -ENOENT || error == -ENOTDIR || error == -ELOOP) return false;
    if (error == 0 && !same_content(now, found.status)) return false;
    if (error != 0) return fail(failed("cannot look at it", found.path, error));
    found.adopted = true;
    found.state = {.version = adopted_version(found.status),
                   .size = size,
                   .modified_ns = static_cast<uint64_t>(std::max<int64_t>(modified_ns, 0))};
    count_adopted(found);
    return true;
  }
  if (fd < 0) return fail(failed("cannot open its checksums", found.sums_path, fd));
  found.sums = UniqueFd(fd);
  if (auto read = read_page(fd, found.sums_path, 0, found.first_page); !read) {
    return fail(read.error());
  }
  const auto head = decode_sums_head(found.first_page);
  const char* wrong = head ? nullptr : name_of(head.error());
  if (head && (head->key.name != found.key.name || head->state.size != size ||
               head->file_modified_ns != modified_ns ||
               (found.key.name.empty() && head->key.id != found.key.id))) {
    wrong = "it belongs to another file";
  }
  if (wrong != nullptr) {
    return fail(damaged(
        found.key, 0, "file " + found.sums_path,
        fmt::format("{0}/{1}: the checksums of {0}/{2} are damaged: {3}. If that file is known to "
                    "be good, remove this one: the object is then taken as it is",
                    path_, found.sums_path, found.path, wrong)));
  }
  found.adopted = false;
  found.key = head->key;
  found.state = head->state;
  return true;
}

void DirectoryImpl::count_adopted(const FoundFile& found) {
  const MutexLock lock(adopted_mutex_);
  if (adopted_.size() >= kMostAdopted) adopted_.clear();
  // Relaxed: a statistic.
  if (adopted_.insert(found.state.version).second) counters_.adopted.fetch_add(1);
}

Result<void> DirectoryImpl::read_page(int fd, const std::string& path, uint64_t index,
                                      SumsPage& page) {
  std::vector<iovec> to{{page.data(), page.size()}};
  auto read = read_all(fd, path, to, index * kSumsPageBytes);
  if (!read) return fail(read.error());
  // A file that was cut off has pages of zeros, whose check is wrong on page 0.
  std::fill(page.begin() + static_cast<ptrdiff_t>(*read), page.end(), uint8_t{0});
  return {};
}

namespace {

// Takes off what is done.
void advance(std::vector<iovec>& list, size_t& at, size_t bytes) {
  while (bytes > 0) {
    iovec& one = list[at];
    const size_t step = std::min(bytes, one.iov_len);
    one.iov_base = static_cast<uint8_t*>(one.iov_base) + step;
    one.iov_len -= step;
    bytes -= step;
    if (one.iov_len == 0) ++at;
  }
}

[[nodiscard]] std::span<const iovec> some_of(const std::vector<iovec>& list, size_t at) {
  return std::span(list).subspan(at, std::min<size_t>(list.size() - at, IOV_MAX));
}

}  // namespace

Result<size_t> DirectoryImpl::read_all(int fd, std::string_view path, std::vector<iovec>& to,
                                       uint64_t offset) {
  size_t done = 0;
  for (size_t at = 0; at < to.size();) {
    const ssize_t n = files_.read(fd, some_of(to, at), offset + done);
    if (n == -EINTR || n == -EAGAIN) continue;
    if (n < 0) return fail(failed("cannot read it", path, static_cast<int>(n)));
    if (n == 0) break;
    done += static_cast<size_t>(n);
    advance(to, at, static_cast<size_t>(n));
  }
  return done;
}

Result<void> DirectoryImpl::write_all(int fd, std::string_view path, std::vector<iovec>& from,
                                      uint64_t offset) {
  for (size_t at = 0; at < from.size();) {
    const ssize_t n = files_.write(fd, some_of(from, at), offset);
    if (n == -EINTR || n == -EAGAIN) continue;
    if (n <= 0) return fail(failed("cannot write it", path, n == 0 ? -EIO : static_cast<int>(n)));
    offset += static_cast<uint64_t>(n);
    advance(from, at, static_cast<size_t>(n));
  }
  return {};
}

}  // namespace verbena::backend
