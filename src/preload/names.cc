// SPDX-License-Identifier: Apache-2.0
// Names of files: links, real paths, patterns.
#include <cerrno>
#include <climits>
#include <cstdlib>

#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <sys/stat.h>
#include <unistd.h>

#include "preload/locate.h"
#include "preload/next.h"
#include "preload/shown.h"

using namespace verbena::preload;

namespace {

[[nodiscard]] ssize_t read_link_shown(const std::string& path, char* out, size_t size) {
  const auto node = look_up(path);
  if (!node || node->type != verbena::identity::TreeNode::Type::kLink) {
    errno = node ? EINVAL : ENOENT;
    return -1;
  }
  return static_cast<ssize_t>(node->content.copy(out, size));  // without an end, as readlink(2)
}

[[nodiscard]] char* real_path(const std::string& path, char* out) {
  if (!look_up(path)) {
    errno = ENOENT;
    return nullptr;
  }
  if (out == nullptr) return ::strdup(path.c_str());
  return std::strcpy(out, path.c_str());
}

// The C library's glob() opens directories by ways of its own, unless it is given others: ours,
// which are fit for any directory.
template <typename Glob>
void give_functions(Glob& to) {
  to.gl_opendir = [](const char* path) { return static_cast<void*>(::opendir(path)); };
  to.gl_closedir = [](void* directory) { ::closedir(static_cast<DIR*>(directory)); };
}

[[nodiscard]] bool may_be_ours(const char* pattern) {
  return pattern != nullptr &&
         (verbena::identity::may_lead_to_roots(pattern) || current_directory());
}

}  // namespace

VERBENA_EXPORT ssize_t readlink(const char* path, char* out, size_t size) {
  const Place place = locate(AT_FDCWD, path, Follow::kNotTheLast);
  if (place) return read_link_shown(place.path(), out, size);
  return NEXT(readlink)(place.for_kernel(path), out, size);
}
VERBENA_EXPORT ssize_t readlinkat(int directory, const char* path, char* out, size_t size) {
  const Place place = locate(directory, path, Follow::kNotTheLast);
  if (place) return read_link_shown(place.path(), out, size);
  return NEXT(readlinkat)(directory, place.for_kernel(path), out, size);
}

// What the headers make of these under _FORTIFY_SOURCE.
// NOLINTBEGIN(readability-identifier-naming): as the C library names them
extern "C" ssize_t __readlink_chk(const char*, char*, size_t, size_t);
extern "C" ssize_t __readlinkat_chk(int, const char*, char*, size_t, size_t);
extern "C" char* __realpath_chk(const char*, char*, size_t);
// NOLINTEND(readability-identifier-naming)

VERBENA_EXPORT ssize_t __readlink_chk(const char* path, char* out, size_t size, size_t room) {
  const Place place = locate(AT_FDCWD, path, Follow::kNotTheLast);
  if (place && size <= room) return read_link_shown(place.path(), out, size);
  return NEXT(__readlink_chk)(place.for_kernel(path), out, size, room);
}
VERBENA_EXPORT ssize_t __readlinkat_chk(int directory, const char* path, char* out, size_t size,
                                        size_t room) {
  const Place place = locate(directory, path, Follow::kNotTheLast);
  if (place && size <= room) return read_link_shown(place.path(), out, size);
  return NEXT(__readlinkat_chk)(directory, place.for_kernel(path), out, size, room);
}

VERBENA_EXPORT char* realpath(const char* path, char* out) {
  const Place place = locate(AT_FDCWD, path);
  if (place) return real_path(place.path(), out);
  return NEXT(realpath)(place.for_kernel(path), out);
}
VERBENA_EXPORT char* __realpath_chk(const char* path, char* out, size_t room) {
  const Place place = locate(AT_FDCWD, path);
  if (place && room >= PATH_MAX) return real_path(place.path(), out);
  return NEXT(__realpath_chk)(place.for_kernel(path), out, room);
}
VERBENA_EXPORT char* canonicalize_file_name(const char* path) {
  const Place place = locate(AT_FDCWD, path);
  if (place) return real_path(place.path(), nullptr);
  return NEXT(canonicalize_file_name)(place.for_kernel(path));
}

VERBENA_EXPORT int glob(const char* pattern, int flags, int (*on_error)(const char*, int),
                        glob_t* out) {
  if (!may_be_ours(pattern) || (flags & GLOB_ALTDIRFUNC) != 0) {
    return NEXT(glob)(pattern, flags, on_error, out);
  }
  give_functions(*out);
  out->gl_readdir = [](void* directory) { return ::readdir(static_cast<DIR*>(directory)); };
  out->gl_lstat = [](const char* path, struct stat* status) { return ::lstat(path, status); };
  out->gl_stat = [](const char* path, struct stat* status) { return ::stat(path, status); };
  const int result = NEXT(glob)(pattern, flags | GLOB_ALTDIRFUNC, on_error, out);
  out->gl_flags &= ~GLOB_ALTDIRFUNC;
  return result;
}
VERBENA_EXPORT int glob64(const char* pattern, int flags, int (*on_error)(const char*, int),
                          glob64_t* out) {
  if (!may_be_ours(pattern) || (flags & GLOB_ALTDIRFUNC) != 0) {
    return NEXT(glob64)(pattern, flags, on_error, out);
  }
  give_functions(*out);
  out->gl_readdir = [](void* directory) { return ::readdir64(static_cast<DIR*>(directory)); };
  out->gl_lstat = [](const char* path, struct stat64* status) { return ::lstat64(path, status); };
  out->gl_stat = [](const char* path, struct stat64* status) { return ::stat64(path, status); };
  const int result = NEXT(glob64)(pattern, flags | GLOB_ALTDIRFUNC, on_error, out);
  out->gl_flags &= ~GLOB_ALTDIRFUNC;
  return result;
}
