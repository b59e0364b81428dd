// SPDX-License-Identifier: Apache-2.0
// Asking about files: the stat, access and extended attribute families. struct stat and struct
// stat64 are the same on the machines that we are built for.
#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "preload/locate.h"
#include "preload/next.h"
#include "preload/shown.h"

using namespace verbena::preload;

static_assert(sizeof(struct stat) == sizeof(struct stat64));

namespace {

[[nodiscard]] struct stat& as_stat(struct stat64* out) {
  return *reinterpret_cast<struct stat*>(out);
}

// What the kernel said about a descriptor, or what we say of one of ours: memory without a name.
[[nodiscard]] int amend(int result, int fd, struct stat& out) {
  if (result != 0 || out.st_nlink != 0) return result;
  const auto shown = shown_by(fd);
  return shown ? stat_shown(*shown, out) : result;
}

int statx_shown(const std::string& path, struct statx& out) {
  struct stat plain;
  if (stat_shown(path, plain) != 0) return -1;
  out = {};
  out.stx_mask = STATX_BASIC_STATS;
  out.stx_blksize = static_cast<uint32_t>(plain.st_blksize);
  out.stx_nlink = static_cast<uint32_t>(plain.st_nlink);
  out.stx_mode = static_cast<uint16_t>(plain.st_mode);
  out.stx_ino = plain.st_ino;
  out.stx_size = static_cast<uint64_t>(plain.st_size);
  out.stx_atime.tv_sec = out.stx_mtime.tv_sec = out.stx_ctime.tv_sec = plain.st_mtim.tv_sec;
  out.stx_rdev_major = major(plain.st_rdev);
  out.stx_rdev_minor = minor(plain.st_rdev);
  out.stx_dev_major = major(plain.st_dev);
  out.stx_dev_minor = minor(plain.st_dev);
  return 0;
}

}  // namespace

VERBENA_EXPORT int stat(const char* path, struct stat* out) {
  const Place place = locate(AT_FDCWD, path);
  if (place) return stat_shown(place.path(), *out);
  return NEXT(stat)(place.for_kernel(path), out);
}
VERBENA_EXPORT int stat64(const char* path, struct stat64* out) {
  const Place place = locate(AT_FDCWD, path);
  if (place) return stat_shown(place.path(), as_stat(out));
  return NEXT(stat64)(place.for_kernel(path), out);
}
VERBENA_EXPORT int lstat(const char* path, struct stat* out) {
  const Place place = locate(AT_FDCWD, path, Follow::kNotTheLast);
  if (place) return stat_shown(place.path(), *out);
  return NEXT(lstat)(place.for_kernel(path), out);
}
VERBENA_EXPORT int lstat64(const char* path, struct stat64* out) {
  const Place place = locate(AT_FDCWD, path, Follow::kNotTheLast);
  if (place) return stat_shown(place.path(), as_stat(out));
  return NEXT(lstat64)(place.for_kernel(path), out);
}
VERBENA_EXPORT int fstat(int fd, struct stat* out) { return amend(NEXT(fstat)(fd, out), fd, *out); }
VERBENA_EXPORT int fstat64(int fd, struct stat64* out) {
  return amend(NEXT(fstat64)(fd, out), fd, as_stat(out));
}
VERBENA_EXPORT int fstatat(int directory, const char* path, struct stat* out, int flags) {
  const Place place = locate_with_flags(directory, path, flags);
  if (place) return stat_shown(place.path(), *out);
  return NEXT(fstatat)(directory, place.for_kernel(path), out, flags);
}
VERBENA_EXPORT int fstatat64(int directory, const char* path, struct stat64* out, int flags) {
  const Place place = locate_with_flags(directory, path, flags);
  if (place) return stat_shown(place.path(), as_stat(out));
  return NEXT(fstatat64)(directory, place.for_kernel(path), out, flags);
}
VERBENA_EXPORT int statx(int directory, const char* path, int flags, unsigned mask,
                         struct statx* out) {
  const Place place = locate_with_flags(directory, path, flags);
  if (place) return statx_shown(place.path(), *out);
  return NEXT(statx)(directory, place.for_kernel(path), flags, mask, out);
}

// What programs call that were linked before glibc 2.33.
// NOLINTBEGIN(readability-identifier-naming): as the C library names them
extern "C" int __xstat(int, const char*, struct stat*);
extern "C" int __xstat64(int, const char*, struct stat64*);
extern "C" int __lxstat(int, const char*, struct stat*);
extern "C" int __lxstat64(int, const char*, struct stat64*);
extern "C" int __fxstat(int, int, struct stat*);
extern "C" int __fxstat64(int, int, struct stat64*);
extern "C" int __fxstatat(int, int, const char*, struct stat*, int);
extern "C" int __fxstatat64(int, int, const char*, struct stat64*, int);
// NOLINTEND(readability-identifier-naming)

VERBENA_EXPORT int __xstat(int version, const char* path, struct stat* out) {
  const Place place = locate(AT_FDCWD, path);
  if (place) return stat_shown(place.path(), *out);
  return NEXT(__xstat)(version, place.for_kernel(path), out);
}
VERBENA_EXPORT int __xstat64(int version, const char* path, struct stat64* out) {
  const Place place = locate(AT_FDCWD, path);
  if (place) return stat_shown(place.path(), as_stat(out));
  return NEXT(__xstat64)(version, place.for_kernel(path), out);
}
VERBENA_EXPORT int __lxstat(int version, const char* path, struct stat* out) {
  const Place place = locate(AT_FDCWD, path, Follow::kNotTheLast);
  if (place) return stat_shown(place.path(), *out);
  return NEXT(__lxstat)(version, place.for_kernel(path), out);
}
VERBENA_EXPORT int __lxstat64(int version, const char* path, struct stat64* out) {
  const Place place = locate(AT_FDCWD, path, Follow::kNotTheLast);
  if (place) return stat_shown(place.path(), as_stat(out));
  return NEXT(__lxstat64)(version, place.for_kernel(path), out);
}
VERBENA_EXPORT int __fxstat(int version, int fd, struct stat* out) {
  return amend(NEXT(__fxstat)(version, fd, out), fd, *out);
}
VERBENA_EXPORT int __fxstat64(int version, int fd, struct stat64* out) {
  return amend(NEXT(__fxstat64)(version, fd, out), fd, as_stat(out));
}
VERBENA_EXPORT int __fxstatat(int version, int directory, const char* path, struct stat* out,
                              int flags) {
  const Place place = locate_with_flags(directory, path, flags);
  if (place) return stat_shown(place.path(), *out);
  return NEXT(__fxstatat)(version, directory, place.for_kernel(path), out, flags);
}
VERBENA_EXPORT int __fxstatat64(int version, int directory, const char* path, struct stat64* out,
                                int flags) {
  const Place place = locate_with_flags(directory, path, flags);
  if (place) return stat_shown(place.path(), as_stat(out));
  return NEXT(__fxstatat64)(version, directory, place.for_kernel(path), out, flags);
}

VERBENA_EXPORT int access(const char* path, int mode) {
  const Place place = locate(AT_FDCWD, path);
  if (place) return access_shown(place.path(), mode);
  return NEXT(access)(place.for_kernel(path), mode);
}
VERBENA_EXPORT int eaccess(const char* path, int mode) {
  const Place place = locate(AT_FDCWD, path);
  if (place) return access_shown(place.path(), mode);
  return NEXT(eaccess)(place.for_kernel(path), mode);
}
VERBENA_EXPORT int euidaccess(const char* path, int mode) {
  const Place place = locate(AT_FDCWD, path);
  if (place) return access_shown(place.path(), mode);
  return NEXT(euidaccess)(place.for_kernel(path), mode);
}
VERBENA_EXPORT int faccessat(int directory, const char* path, int mode, int flags) {
  const Place place = locate_with_flags(directory, path, flags);
  if (place) return access_shown(place.path(), mode);
  return NEXT(faccessat)(directory, place.for_kernel(path), mode, flags);
}

// Of extended attributes there are none; `ls -l` asks.
VERBENA_EXPORT ssize_t getxattr(const char* path, const char* name, void* value, size_t size) {
  const Place place = locate(AT_FDCWD, path);
  if (!place) return NEXT(getxattr)(place.for_kernel(path), name, value, size);
  errno = ENOTSUP;
  return -1;
}
VERBENA_EXPORT ssize_t lgetxattr(const char* path, const char* name, void* value, size_t size) {
  const Place place = locate(AT_FDCWD, path, Follow::kNotTheLast);
  if (!place) return NEXT(lgetxattr)(place.for_kernel(path), name, value, size);
  errno = ENOTSUP;
  return -1;
}
VERBENA_EXPORT ssize_t listxattr(const char* path, char* list, size_t size) {
  const Place place = locate(AT_FDCWD, path);
  return place ? 0 : NEXT(listxattr)(place.for_kernel(path), list, size);
}
VERBENA_EXPORT ssize_t llistxattr(const char* path, char* list, size_t size) {
  const Place place = locate(AT_FDCWD, path, Follow::kNotTheLast);
  return place ? 0 : NEXT(llistxattr)(place.for_kernel(path), list, size);
}
