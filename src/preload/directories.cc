// SPDX-License-Identifier: Apache-2.0
// Reading directories. Of ours the program gets a stream of our own making, which it can only hand
// back to the functions here: a DIR is opaque. The first word tells it from the C library's, whose
// DIR begins with a descriptor.
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>

#include <dirent.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/unique_fd.h"
#include "preload/locate.h"
#include "preload/next.h"
#include "preload/shown.h"

using namespace verbena::preload;

static_assert(sizeof(dirent) == sizeof(dirent64));

namespace {

struct Stream {
  // No descriptor: its low half, on both byte orders, is negative as an int.
  static constexpr uint64_t kMark = 0xf0e1d2c3b4a59687;

  uint64_t mark = kMark;
  std::string path;
  std::vector<std::string> names;
  size_t at = 0;
  verbena::UniqueFd fd;
  dirent entry{};
};

[[nodiscard]] Stream* stream_of(DIR* directory) {
  if (directory == nullptr) return nullptr;
  uint64_t mark = 0;
  std::memcpy(&mark, static_cast<const void*>(directory), sizeof mark);
  return mark == Stream::kMark ? reinterpret_cast<Stream*>(directory) : nullptr;
}

void read_names(Stream& stream) {
  stream.names = {".", ".."};
  for (std::string& name : names_in(stream.path)) stream.names.push_back(std::move(name));
  stream.at = 0;
}

[[nodiscard]] DIR* open_stream(std::string path, verbena::UniqueFd fd) {
  auto stream = std::make_unique<Stream>();
  stream->path = std::move(path);
  stream->fd = std::move(fd);
  read_names(*stream);
  return reinterpret_cast<DIR*>(stream.release());
}

[[nodiscard]] unsigned char type_of(const std::string& path) {
  struct stat status;
  if (stat_shown(path, status) != 0) return DT_UNKNOWN;
  return static_cast<unsigned char>(IFTODT(status.st_mode));
}

[[nodiscard]] dirent* read_entry(Stream& stream) {
  if (stream.at == stream.names.size()) return nullptr;
  const std::string& name = stream.names[stream.at++];
  const bool dots = name == "." || name == "..";
  const std::string path = dots ? stream.path : stream.path + '/' + name;
  dirent& entry = stream.entry;
  entry = {};
  struct stat status{};
  if (stat_shown(path, status) == 0) entry.d_ino = status.st_ino;
  entry.d_off = static_cast<off_t>(stream.at);
  entry.d_reclen = sizeof entry;
  entry.d_type = dots ? static_cast<unsigned char>(DT_DIR) : type_of(path);
  std::strncpy(entry.d_name, name.c_str(), sizeof entry.d_name - 1);
  return &entry;
}

[[nodiscard]] DIR* open_directory(const std::string& path) {
  verbena::UniqueFd fd(open_shown(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  return fd.valid() ? open_stream(path, std::move(fd)) : nullptr;
}

// scandir(), with names for the two types of entry.
template <typename Entry>
[[nodiscard]] int scan(const std::string& path, Entry*** list, int (*wanted)(const Entry*),
                       int (*order)(const Entry**, const Entry**)) {
  DIR* const directory = open_directory(path);
  if (directory == nullptr) return -1;
  Stream& stream = *stream_of(directory);
  auto** const found = static_cast<Entry**>(std::calloc(stream.names.size(), sizeof(Entry*)));
  int count = 0;
  while (const auto* const entry = reinterpret_cast<Entry*>(read_entry(stream))) {
    if (wanted != nullptr && wanted(entry) == 0) continue;
    found[count] = static_cast<Entry*>(std::malloc(sizeof(Entry)));
    std::memcpy(static_cast<void*>(found[count++]), entry, sizeof(Entry));
  }
  delete &stream;
  if (order != nullptr) {
    std::qsort(static_cast<void*>(found), static_cast<size_t>(count), sizeof(Entry*),
               reinterpret_cast<int (*)(const void*, const void*)>(order));
  }
  *list = found;
  return count;
}

}  // namespace

VERBENA_EXPORT DIR* opendir(const char* path) {
  const Place place = locate(AT_FDCWD, path);
  if (place) return open_directory(place.path());
  return NEXT(opendir)(place.for_kernel(path));
}
VERBENA_EXPORT DIR* fdopendir(int fd) {
  if (auto shown = directory_of(fd)) return open_stream(std::move(*shown), verbena::UniqueFd(fd));
  return NEXT(fdopendir)(fd);
}
VERBENA_EXPORT int closedir(DIR* directory) {
  Stream* const stream = stream_of(directory);
  if (stream == nullptr) return NEXT(closedir)(directory);
  delete stream;
  return 0;
}
VERBENA_EXPORT dirent* readdir(DIR* directory) {
  Stream* const stream = stream_of(directory);
  return stream == nullptr ? NEXT(readdir)(directory) : read_entry(*stream);
}
VERBENA_EXPORT dirent64* readdir64(DIR* directory) {
  Stream* const stream = stream_of(directory);
  if (stream == nullptr) return NEXT(readdir64)(directory);
  return reinterpret_cast<dirent64*>(read_entry(*stream));
}
// As readdir() does it, into the caller's room. NOLINTBEGIN(readability-non-const-parameter)
VERBENA_EXPORT int readdir_r(DIR* directory, dirent* entry, dirent** result) {
  Stream* const stream = stream_of(directory);
  if (stream == nullptr) return NEXT(readdir_r)(directory, entry, result);
  const dirent* const next = read_entry(*stream);
  *result = next == nullptr ? nullptr : entry;
  if (next != nullptr) *entry = *next;
  return 0;
}
VERBENA_EXPORT int readdir64_r(DIR* directory, dirent64* entry, dirent64** result) {
  Stream* const stream = stream_of(directory);
  if (stream == nullptr) return NEXT(readdir64_r)(directory, entry, result);
  const dirent* const next = read_entry(*stream);
  *result = next == nullptr ? nullptr : entry;
  if (next != nullptr) std::memcpy(static_cast<void*>(entry), next, sizeof *next);
  return 0;
}
// NOLINTEND(readability-non-const-parameter)
VERBENA_EXPORT void rewinddir(DIR* directory) {
  Stream* const stream = stream_of(directory);
  if (stream == nullptr) return NEXT(rewinddir)(directory);
  read_names(*stream);
}
VERBENA_EXPORT long telldir(DIR* directory) {
  Stream* const stream = stream_of(directory);
  return stream == nullptr ? NEXT(telldir)(directory) : static_cast<long>(stream->at);
}
VERBENA_EXPORT void seekdir(DIR* directory, long place) {
  Stream* const stream = stream_of(directory);
  if (stream == nullptr) return NEXT(seekdir)(directory, place);
  stream->at = std::min(static_cast<size_t>(place), stream->names.size());
}
VERBENA_EXPORT int dirfd(DIR* directory) {
  Stream* const stream = stream_of(directory);
  return stream == nullptr ? NEXT(dirfd)(directory) : stream->fd.get();
}
VERBENA_EXPORT int scandir(const char* path, dirent*** list, int (*wanted)(const dirent*),
                           int (*order)(const dirent**, const dirent**)) {
  const Place place = locate(AT_FDCWD, path);
  if (place) return scan(place.path(), list, wanted, order);
  return NEXT(scandir)(place.for_kernel(path), list, wanted, order);
}
VERBENA_EXPORT int scandir64(const char* path, dirent64*** list, int (*wanted)(const dirent64*),
                             int (*order)(const dirent64**, const dirent64**)) {
  const Place place = locate(AT_FDCWD, path);
  if (place) return scan(place.path(), list, wanted, order);
  return NEXT(scandir64)(place.for_kernel(path), list, wanted, order);
}
