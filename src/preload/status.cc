// SPDX-License-Identifier: Apache-2.0
// Asking about files: the stat, access and extended attribute families. struct stat and struct
// stat64 are the same on the machines that we are built for.
#include <cerrno>

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "preload/next.h"
#include "preload/shown.h"

using namespace verbena::preload;

static_assert(sizeof(struct stat) == sizeof(struct stat64));

namespace {

[[nodiscard]] struct stat& as_stat(struct stat64* out) {
  return *reinterpret_cast<struct stat*>(out);
}

// The path of ours that an *at() call means, be it by the descriptor alone.
[[nodiscard]] std::optional<std::string> ours_at(int directory, const char* path, int flags) {
  const bool by_descriptor = path == nullptr || path[0] == 0;
  if ((flags & AT_EMPTY_PATH) != 0 && by_descriptor) return directory_of(directory);
  return ours(directory, path);
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
  if (const auto shown = ours(AT_FDCWD, path)) return stat_shown(*shown, *out);
  return NEXT(stat)(path, out);
}
VERBENA_EXPORT int stat64(const char* path, struct stat64* out) {
  if (const auto shown = ours(AT_FDCWD, path)) return stat_shown(*shown, as_stat(out));
  return NEXT(stat64)(path, out);
}
VERBENA_EXPORT int lstat(const char* path, struct stat* out) {
  if (const auto shown = ours(AT_FDCWD, path)) return stat_shown(*shown, *out);
  return NEXT(lstat)(path, out);
}
VERBENA_EXPORT int lstat64(const char* path, struct stat64* out) {
  if (const auto shown = ours(AT_FDCWD, path)) return stat_shown(*shown, as_stat(out));
  return NEXT(lstat64)(path, out);
}
VERBENA_EXPORT int fstat(int fd, struct stat* out) {
  if (const auto shown = directory_of(fd)) return stat_shown(*shown, *out);
  return NEXT(fstat)(fd, out);
}
VERBENA_EXPORT int fstat64(int fd, struct stat64* out) {
  if (const auto shown = directory_of(fd)) return stat_shown(*shown, as_stat(out));
  return NEXT(fstat64)(fd, out);
}
VERBENA_EXPORT int fstatat(int directory, const char* path, struct stat* out, int flags) {
  if (const auto shown = ours_at(directory, path, flags)) return stat_shown(*shown, *out);
  return NEXT(fstatat)(directory, path, out, flags);
}
VERBENA_EXPORT int fstatat64(int directory, const char* path, struct stat64* out, int flags) {
  if (const auto shown = ours_at(directory, path, flags)) return stat_shown(*shown, as_stat(out));
  return NEXT(fstatat64)(directory, path, out, flags);
}
VERBENA_EXPORT int statx(int directory, const char* path, int flags, unsigned mask,
                         struct statx* out) {
  if (const auto shown = ours_at(directory, path, flags)) return statx_shown(*shown, *out);
  return NEXT(statx)(directory, path, flags, mask, out);
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
  if (const auto shown = ours(AT_FDCWD, path)) return stat_shown(*shown, *out);
  return NEXT(__xstat)(version, path, out);
}
VERBENA_EXPORT int __xstat64(int version, const char* path, struct stat64* out) {
  if (const auto shown = ours(AT_FDCWD, path)) return stat_shown(*shown, as_stat(out));
  return NEXT(__xstat64)(version, path, out);
}
VERBENA_EXPORT int __lxstat(int version, const char* path, struct stat* out) {
  if (const auto shown = ours(AT_FDCWD, path)) return stat_shown(*shown, *out);
  return NEXT(__lxstat)(version, path, out);
}
VERBENA_EXPORT int __lxstat64(int version, const char* path, struct stat64* out) {
  if (const auto shown = ours(AT_FDCWD, path)) return stat_shown(*shown, as_stat(out));
  return NEXT(__lxstat64)(version, path, out);
}
VERBENA_EXPORT int __fxstat(int version, int fd, struct stat* out) {
  if (const auto shown = directory_of(fd)) return stat_shown(*shown, *out);
  return NEXT(__fxstat)(version, fd, out);
}
VERBENA_EXPORT int __fxstat64(int version, int fd, struct stat64* out) {
  if (const auto shown = directory_of(fd)) return stat_shown(*shown, as_stat(out));
  return NEXT(__fxstat64)(version, fd, out);
}
VERBENA_EXPORT int __fxstatat(int version, int directory, const char* path, struct stat* out,
                              int flags) {
  if (const auto shown = ours_at(directory, path, flags)) return stat_shown(*shown, *out);
  return NEXT(__fxstatat)(version, directory, path, out, flags);
}
VERBENA_EXPORT int __fxstatat64(int version, int directory, const char* path, struct stat64* out,
                                int flags) {
  if (const auto shown = ours_at(directory, path, flags)) return stat_shown(*shown, as_stat(out));
  return NEXT(__fxstatat64)(version, directory, path, out, flags);
}

VERBENA_EXPORT int access(const char* path, int mode) {
  if (const auto shown = ours(AT_FDCWD, path)) return access_shown(*shown, mode);
  return NEXT(access)(path, mode);
}
VERBENA_EXPORT int eaccess(const char* path, int mode) {
  if (const auto shown = ours(AT_FDCWD, path)) return access_shown(*shown, mode);
  return NEXT(eaccess)(path, mode);
}
VERBENA_EXPORT int euidaccess(const char* path, int mode) {
  if (const auto shown = ours(AT_FDCWD, path)) return access_shown(*shown, mode);
  return NEXT(euidaccess)(path, mode);
}
VERBENA_EXPORT int faccessat(int directory, const char* path, int mode, int flags) {
  if (const auto shown = ours(directory, path)) return access_shown(*shown, mode);
  return NEXT(faccessat)(directory, path, mode, flags);
}

// Of extended attributes there are none; `ls -l` asks.
VERBENA_EXPORT ssize_t getxattr(const char* path, const char* name, void* value, size_t size) {
  if (!ours(AT_FDCWD, path)) return NEXT(getxattr)(path, name, value, size);
  errno = ENOTSUP;
  return -1;
}
VERBENA_EXPORT ssize_t lgetxattr(const char* path, const char* name, void* value, size_t size) {
  if (!ours(AT_FDCWD, path)) return NEXT(lgetxattr)(path, name, value, size);
  errno = ENOTSUP;
  return -1;
}
VERBENA_EXPORT ssize_t listxattr(const char* path, char* list, size_t size) {
  return ours(AT_FDCWD, path) ? 0 : NEXT(listxattr)(path, list, size);
}
VERBENA_EXPORT ssize_t llistxattr(const char* path, char* list, size_t size) {
  return ours(AT_FDCWD, path) ? 0 : NEXT(llistxattr)(path, list, size);
}
