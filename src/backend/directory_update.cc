// SPDX-License-Identifier: Apache-2.0
#include "backend/directory_update.h"

#include <algorithm>
#include <cerrno>
#include <limits>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

namespace verbena::backend {
namespace {

// What a file system says that cannot do it, or not between these two files.
[[nodiscard]] bool cannot(int error) {
  return error == -EOPNOTSUPP || error == -ENOSYS || error == -EINVAL || error == -EXDEV ||
         error == -ENOTTY || error == -EPERM || error == -ETXTBSY;
}

constexpr uint64_t kBytesToBegin = 1 << 20;

[[nodiscard]] Error invalid(const char* what) { return {Code::kInvalid, what, {}}; }

}  // namespace

DirectoryUpdate::~DirectoryUpdate() {
  // The file is gone before its sums are: it must never be there without.
  if (file_.named) tier_.remove_quietly(file_.path);
  if (sums_.named) tier_.remove_quietly(sums_.path);
  if (!sums_placed_.empty()) tier_.remove_quietly(sums_placed_);
}

Error DirectoryUpdate::conflict(std::string_view path) const {
  return {
      Code::kConflict,
      fmt::format("{}/{}: it is not the version that the update begins from", tier_.path_, path),
      {}};
}

Result<void> DirectoryUpdate::noted(Result<void> result) {
  if (result) return result;
  const MutexLock lock(mutex_);
  if (!error_) error_ = result.error();
  return result;
}

Result<std::optional<FoundFile>> DirectoryUpdate::find_version(const Key& key,
                                                               std::optional<uint64_t> version) {
  auto found = tier_.find(key);
  if (!found && found.error().code != Code::kNotFound) return fail(found.error());
  if (found.has_value() != version.has_value() || (found && found->state.version != *version)) {
    return fail(conflict(found ? found->path : key.name));
  }
  if (!found) return std::optional<FoundFile>{};
  return std::optional<FoundFile>(std::move(*found));
}

Result<void> DirectoryUpdate::make(TemporaryFile& file, mode_t mode) {
  const uint64_t number = tier_.next_temporary_.fetch_add(1, std::memory_order_relaxed);
  const std::string name = fmt::format("{:x}", number);
  file.path = fmt::format("{}/{}", kTemporaryFolder, name);
  const UniqueFd folder(tier_.open_folder(kTemporaryFolder));
  const int fd = folder.valid()
                     ? tier_.files_.open(folder.get(), name, O_RDWR | O_CREAT | O_EXCL, mode)
                     : folder.get();
  if (fd < 0) return fail(tier_.failed("cannot make it", file.path, fd));
  file.fd = UniqueFd(fd);
  file.named = true;
  return {};
}

Result<void> DirectoryUpdate::begin() {
  const State& state = wanted_.state;
  if (state.version == 0 || state.version == wanted_.base) {
    return fail(invalid("a new version needs a number of its own"));
  }
  if (state.size > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
    return fail(invalid("larger than a file can be"));
  }
  auto base = find_version(key_, wanted_.base);
  if (!base) return fail(base.error());
  base_ = std::move(*base);
  if (wanted_.source) {
    auto source = find_version(wanted_.source->key, wanted_.source->version);
    if (!source) return fail(source.error());
    source_ = std::move(*source);
  }
  if (source_ || base_) from_ = source_ ? &*source_ : &*base_;
  // Until it has the mode of what it begins from nobody else may read it.
  if (auto made = make(file_, from_ != nullptr ? 0600 : 0666); !made) return made;
  if (from_ != nullptr && from_->state.size > 0) {
    const int error = tier_.files_.clone(from_->file.get(), file_.fd.get());
    if (error < 0 && !cannot(error)) {
      return fail(tier_.failed("cannot clone it", from_->path, error));
    }
    cloned_ = error == 0;
  }
  if (const int error = tier_.files_.truncate(file_.fd.get(), size()); error < 0) {
    return fail(tier_.failed("cannot make it as large", file_.path, error));
  }
  const MutexLock lock(mutex_);
  if (from_ != nullptr && !from_->adopted) {
    draft_ =
        SumsDraft(pages_for(parts_of(from_->state.size)), [this](uint64_t index, SumsPage& page) {
          return tier_.read_page(from_->sums.get(), from_->sums_path, index, page);
        });
  }
  return {};
}

Result<void> DirectoryUpdate::claim(uint64_t first, uint64_t count) {
  const uint64_t all = parts_of(size());
  if (first > all || count > all - first) return fail(invalid("parts after the object's end"));
  const MutexLock lock(mutex_);
  if (error_) return fail(*error_);
  if (!written_.add(first, first + count)) return fail(invalid("a part is written twice"));
  return {};
}

Result<void> DirectoryUpdate::put(uint64_t first, std::span<const PartToPut> parts) {
  if (parts.empty()) return {};
  if (auto claimed = claim(first, parts.size()); !claimed) return noted(claimed);
  if (auto written = write_parts(first, parts); !written) return noted(written);
  const MutexLock lock(mutex_);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (auto set = draft_.set(first + i, parts[i].crc); !set) {
      if (!error_) error_ = set.error();
      return set;
    }
  }
  return {};
}

Result<void> DirectoryUpdate::write_parts(uint64_t first, std::span<const PartToPut> parts) {
  std::vector<iovec> from;
  from.reserve(parts.size());
  for (size_t i = 0; i < parts.size(); ++i) {
    const uint64_t offset = (first + i) * kPartBytes;
    // pwritev() does not write to it.
    from.push_back({const_cast<uint8_t*>(parts[i].bytes),
                    static_cast<size_t>(std::min<uint64_t>(kPartBytes, size() - offset))});
  }
  const uint64_t bytes = parts.size() * kPartBytes;
  auto written = tier_.write_all(file_.fd.get(), file_.path, from, first * kPartBytes);
  // The disk works while the next parts are copied.
  if (written && bytes >= kBytesToBegin) {
    tier_.files_.begin_sync(file_.fd.get(), first * kPartBytes, bytes);
  }
  return written;
}

Result<void> DirectoryUpdate::hole(uint64_t first, uint64_t count) {
  if (count == 0) return {};
  if (auto claimed = claim(first, count); !claimed) return noted(claimed);
  if (cloned_) {
    const uint64_t end = std::min((first + count) * kPartBytes, common_bytes());
    if (auto zeroed = zero(file_, first * kPartBytes, end); !zeroed) return noted(zeroed);
  }
  const MutexLock lock(mutex_);
  auto set = draft_.set_holes(first, first + count);
  if (!set && !error_) error_ = set.error();
  return set;
}

Result<void> DirectoryUpdate::zero(const TemporaryFile& file, uint64_t begin, uint64_t end) {
  if (begin >= end) return {};
  const int error = tier_.files_.punch(file.fd.get(), begin, end - begin);
  if (error == 0) return {};
  if (!cannot(error)) return fail(tier_.failed("cannot punch a hole", file.path, error));
  std::vector<uint8_t> zeros(std::min<uint64_t>(end - begin, 1 << 20));
  while (begin < end) {
    const auto bytes = static_cast<size_t>(std::min<uint64_t>(zeros.size(), end - begin));
    std::vector<iovec> from{{zeros.data(), bytes}};
    if (auto done = tier_.write_all(file.fd.get(), file.path, from, begin); !done) return done;
    begin += bytes;
  }
  return {};
}

Result<void> DirectoryUpdate::copy(int from, const TemporaryFile& to, uint64_t begin,
                                   uint64_t end) {
  while (begin < end) {
    const off_t data = lseek(from, static_cast<off_t>(begin), SEEK_DATA);
    if (data < 0 && errno == ENXIO) return {};  // a hole up to the end
    // Where holes cannot be told, all is data.
    const uint64_t first = data < 0 ? begin : static_cast<uint64_t>(data);
    if (first >= end) return {};
    const off_t hole = data < 0 ? -1 : lseek(from, data, SEEK_HOLE);
    const uint64_t last = hole < 0 ? end : std::min(end, static_cast<uint64_t>(hole));
    if (auto copied = copy_data(from, to, first, last); !copied) return copied;
    begin = std::max(last, first + 1);
  }
  return {};
}

Result<void> DirectoryUpdate::copy_data(int from, const TemporaryFile& to, uint64_t begin,
                                        uint64_t end) {
  constexpr size_t kMost = 1 << 30;
  std::vector<uint8_t> memory;
  while (begin < end) {
    const auto bytes = static_cast<size_t>(std::min<uint64_t>(end - begin, kMost));
    ssize_t done = memory.empty() ? tier_.files_.copy(from, to.fd.get(), begin, bytes) : 0;
    if (done == -EINTR || done == -EAGAIN) continue;
    if (done < 0 && !cannot(static_cast<int>(done))) {
      return fail(tier_.failed("cannot copy it", to.path, static_cast<int>(done)));
    }
    if (done <= 0) {
      // By hand. If the file ends here, that is found out so as well.
      memory.resize(std::min<size_t>(bytes, 1 << 20));
      std::vector<iovec> list{{memory.data(), std::min(bytes, memory.size())}};
      auto read = tier_.read_all(from, to.path, list, begin);
      if (!read) return fail(read.error());
      if (*read == 0) return {};
      list = {{memory.data(), *read}};
      if (auto put = tier_.write_all(to.fd.get(), to.path, list, begin); !put) return put;
      done = static_cast<ssize_t>(*read);
    }
    begin += static_cast<uint64_t>(done);
  }
  return {};
}

}  // namespace verbena::backend
