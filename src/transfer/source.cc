// SPDX-License-Identifier: Apache-2.0
#include "transfer/source.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/block_sums.h"
#include "transfer/path.h"

namespace verbena::transfer {
namespace {

namespace fs = std::filesystem;

std::string because(std::string_view what) {
  return fmt::format("{}: {}", what, std::strerror(errno));
}

Attributes attributes_of(const struct stat& status) {
  return {.mode = static_cast<uint16_t>(status.st_mode & kModeBits),
          .modified_s = static_cast<uint64_t>(status.st_mtim.tv_sec),
          .modified_ns = static_cast<uint32_t>(status.st_mtim.tv_nsec)};
}

// All of it; false: it is shorter, or an error.
bool read_all(int fd, std::span<uint8_t> to, uint64_t offset) {
  while (!to.empty()) {
    const ssize_t got = pread(fd, to.data(), to.size(), static_cast<off_t>(offset));
    if (got < 0 && errno == EINTR) continue;
    if (got == 0) errno = 0;
    if (got <= 0) return false;
    to = to.subspan(static_cast<size_t>(got));
    offset += static_cast<uint64_t>(got);
  }
  return true;
}

constexpr const char* kChanged = "the file has changed while it was read";

bool is_as_it_was(int fd, const SourceFile& file) {
  struct stat status{};
  return fstat(fd, &status) == 0 && static_cast<uint64_t>(status.st_size) == file.size &&
         attributes_of(status) == file.attributes;
}

bool is_hole(int fd, uint64_t offset, uint64_t length) {
  const off_t data = lseek(fd, static_cast<off_t>(offset), SEEK_DATA);
  return data < 0 ? errno == ENXIO : static_cast<uint64_t>(data) >= offset + length;
}

}  // namespace

Result<void, std::string> list_source(
    const std::string& path, const std::function<void(SourceEntry&&)>& found,
    const std::function<void(const std::string&, const std::string&)>& skipped) {
  fs::path given = fs::path(path).lexically_normal();
  if (!given.has_filename()) given = given.parent_path();
  std::string name = given.filename();
  if (name == "." || name == ".." || name.empty()) {
    std::error_code error;
    name = fs::canonical(path, error).filename();
  }
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) {
    return fail(fmt::format("'{}': {}", path, std::strerror(errno)));
  }
  const auto offer = [&](const std::string& real, const std::string& as, const struct stat& s) {
    const bool folder = S_ISDIR(s.st_mode);
    if (!folder && !S_ISREG(s.st_mode)) return skipped(real, "neither a file nor a folder");
    if (const char* const wrong = wrong_with_path(as)) {
      return skipped(real, fmt::format("its name {}", wrong));
    }
    found({real, {as, folder ? 0 : static_cast<uint64_t>(s.st_size), attributes_of(s), folder}});
  };
  offer(path, name, status);
  if (!S_ISDIR(status.st_mode)) return {};
  std::error_code error;
  auto at = fs::recursive_directory_iterator(path, fs::directory_options::none, error);
  for (; !error && at != fs::recursive_directory_iterator(); at.increment(error)) {
    const std::string real = at->path();
    if (lstat(real.c_str(), &status) != 0) {
      skipped(real, std::strerror(errno));
      continue;
    }
    offer(real, (fs::path(name) / at->path().lexically_relative(path)).string(), status);
  }
  if (error) return fail(fmt::format("cannot read folder '{}': {}", path, error.message()));
  return {};
}

void Source::add(FileId id, SourceEntry entry) {
  auto file = std::make_shared<File>();
  file->entry = std::move(entry);
  const MutexLock lock(mutex_);
  files_.emplace(id, std::move(file));
}

void Source::drop(FileId id) {
  const MutexLock lock(mutex_);
  files_.erase(id);
}

std::shared_ptr<Source::File> Source::find(FileId id) {
  const MutexLock lock(mutex_);
  const auto found = files_.find(id);
  return found == files_.end() ? nullptr : found->second;
}

Result<int, std::string> Source::open(File& file) {
  const MutexLock lock(file.mutex);
  if (!file.fd.valid()) {
    file.fd = UniqueFd(::open(file.entry.real.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  }
  if (!file.fd.valid()) return fail(because("cannot open it"));
  return file.fd.get();
}

Filled Source::fill(const FillSmall& fill, std::span<uint8_t> buffer) {
  Filled filled;
  FrameWriter frame(buffer);
  std::vector<uint8_t> data;
  for (size_t i = 0; i < fill.files.size(); ++i) {
    const FileId id = fill.files[i];
    const auto file = find(id);
    if (file == nullptr) {
      filled.failed.emplace_back(id, "it is gone");
      continue;
    }
    const SourceFile& source = file->entry.file;
    Record record = Folder{id, source.attributes, bytes_of(source.path)};
    const size_t begin = data.size();
    if (!source.folder) {
      const UniqueFd fd(::open(file->entry.real.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
      data.resize(begin + source.size);
      const auto to = std::span(data).subspan(begin);
      if (!fd.valid() || !read_all(fd.get(), to, 0) || !is_as_it_was(fd.get(), source)) {
        filled.failed.emplace_back(id, !fd.valid()  ? because("cannot open it")
                                       : errno != 0 ? because("cannot read it")
                                                    : kChanged);
        data.resize(begin);
        continue;
      }
      record = Small{id, source.attributes, static_cast<uint32_t>(to.size()), crc_of(to),
                     bytes_of(source.path)};
    }
    if (frame.add(record)) continue;
    data.resize(begin);
    filled.left.assign(fill.files.begin() + static_cast<ptrdiff_t>(i), fill.files.end());
    break;
  }
  if (frame.empty()) return filled;
  std::ranges::copy(data, frame.data().begin());
  filled.length = frame.finish();
  return filled;
}

Filled Source::fill(const FillChunk& fill, std::span<uint8_t> buffer) {
  const auto failed = [](std::string why) {
    return Filled{.what = Filled::What::kFailed, .why = std::move(why)};
  };
  const auto file = find(fill.file);
  if (file == nullptr) return failed("it is gone");
  const auto fd = open(*file);
  if (!fd) return failed(fd.error());
  Data record{fill.file, fill.chunk, fill.length, 0};
  if (is_hole(*fd, fill.offset, fill.length) && is_as_it_was(*fd, file->entry.file)) {
    const uint32_t crc = crc_of_zeros(fill.length);
    return {.what = fill.there == crc ? Filled::What::kThere : Filled::What::kHole, .crc = crc};
  }
  FrameWriter layout(buffer);
  if (!layout.add(record)) return failed("a chunk does not fit its slot");
  const auto to = layout.data();
  if (!read_all(*fd, to, fill.offset)) {
    return failed(errno != 0 ? because("cannot read it") : kChanged);
  }
  if (!is_as_it_was(*fd, file->entry.file)) return failed(kChanged);
  record.crc = crc_of(to);
  if (fill.there == record.crc) return {.what = Filled::What::kThere, .crc = record.crc};
  FrameWriter frame(buffer);
  static_cast<void>(frame.add(record));  // as long as before
  return {.what = Filled::What::kData, .length = frame.finish(), .crc = record.crc};
}

Result<size_t, std::string> Source::read(FileId id, uint64_t offset, std::span<uint8_t> to) {
  const auto file = find(id);
  if (file == nullptr) return fail(std::string("it is gone"));
  const auto fd = open(*file);
  if (!fd) return fail(fd.error());
  size_t have = 0;
  while (have < to.size()) {
    const ssize_t got =
        pread(*fd, to.data() + have, to.size() - have, static_cast<off_t>(offset + have));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail(because("cannot read it"));
    if (got == 0) break;
    have += static_cast<size_t>(got);
  }
  return have;
}

}  // namespace verbena::transfer
