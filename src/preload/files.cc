// SPDX-License-Identifier: Apache-2.0
// Opening files, under every name that the C library has for it.
#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

#include "preload/locate.h"
#include "preload/next.h"
#include "preload/shown.h"

using namespace verbena::preload;

namespace {

// The mode follows the flags only where a file may be made.
#define MODE_AFTER(flags)                       \
  mode_t mode = 0;                              \
  if (((flags) & (O_CREAT | O_TMPFILE)) != 0) { \
    va_list arguments;                          \
    va_start(arguments, flags);                 \
    mode = va_arg(arguments, mode_t);           \
    va_end(arguments);                          \
  }

[[nodiscard]] Follow follow_by(int flags) {
  return (flags & O_NOFOLLOW) != 0 ? Follow::kNotTheLast : Follow::kAll;
}

[[nodiscard]] FILE* stream_of(const std::string& path, const char* mode) {
  if (std::strpbrk(mode, "wa+") != nullptr) {
    errno = EACCES;
    return nullptr;
  }
  const int fd = open_shown(path, O_RDONLY | (std::strchr(mode, 'e') != nullptr ? O_CLOEXEC : 0));
  if (fd < 0) return nullptr;
  FILE* const stream = ::fdopen(fd, mode);
  if (stream == nullptr) ::close(fd);
  return stream;
}

}  // namespace

VERBENA_EXPORT int open(const char* path, int flags, ...) {
  MODE_AFTER(flags)
  const Place place = locate(AT_FDCWD, path, follow_by(flags));
  if (place) return open_shown(place.path(), flags);
  return NEXT(open)(place.for_kernel(path), flags, mode);
}
VERBENA_EXPORT int open64(const char* path, int flags, ...) {
  MODE_AFTER(flags)
  const Place place = locate(AT_FDCWD, path, follow_by(flags));
  if (place) return open_shown(place.path(), flags);
  return NEXT(open64)(place.for_kernel(path), flags, mode);
}
VERBENA_EXPORT int openat(int directory, const char* path, int flags, ...) {
  MODE_AFTER(flags)
  const Place place = locate(directory, path, follow_by(flags));
  if (place) return open_shown(place.path(), flags);
  return NEXT(openat)(directory, place.for_kernel(path), flags, mode);
}
VERBENA_EXPORT int openat64(int directory, const char* path, int flags, ...) {
  MODE_AFTER(flags)
  const Place place = locate(directory, path, follow_by(flags));
  if (place) return open_shown(place.path(), flags);
  return NEXT(openat64)(directory, place.for_kernel(path), flags, mode);
}

// What the headers make of calls without a mode under _FORTIFY_SOURCE.
// NOLINTBEGIN(readability-identifier-naming): as the C library names them
extern "C" int __open_2(const char*, int);
extern "C" int __open64_2(const char*, int);
extern "C" int __openat_2(int, const char*, int);
extern "C" int __openat64_2(int, const char*, int);
// NOLINTEND(readability-identifier-naming)

VERBENA_EXPORT int __open_2(const char* path, int flags) {
  const Place place = locate(AT_FDCWD, path, follow_by(flags));
  if (place) return open_shown(place.path(), flags);
  return NEXT(__open_2)(place.for_kernel(path), flags);
}
VERBENA_EXPORT int __open64_2(const char* path, int flags) {
  const Place place = locate(AT_FDCWD, path, follow_by(flags));
  if (place) return open_shown(place.path(), flags);
  return NEXT(__open64_2)(place.for_kernel(path), flags);
}
VERBENA_EXPORT int __openat_2(int directory, const char* path, int flags) {
  const Place place = locate(directory, path, follow_by(flags));
  if (place) return open_shown(place.path(), flags);
  return NEXT(__openat_2)(directory, place.for_kernel(path), flags);
}
VERBENA_EXPORT int __openat64_2(int directory, const char* path, int flags) {
  const Place place = locate(directory, path, follow_by(flags));
  if (place) return open_shown(place.path(), flags);
  return NEXT(__openat64_2)(directory, place.for_kernel(path), flags);
}

VERBENA_EXPORT FILE* fopen(const char* path, const char* mode) {
  const Place place = locate(AT_FDCWD, path);
  if (place) return stream_of(place.path(), mode);
  return NEXT(fopen)(place.for_kernel(path), mode);
}
VERBENA_EXPORT FILE* fopen64(const char* path, const char* mode) {
  const Place place = locate(AT_FDCWD, path);
  if (place) return stream_of(place.path(), mode);
  return NEXT(fopen64)(place.for_kernel(path), mode);
}
