// SPDX-License-Identifier: Apache-2.0
// The current directory, which may be one of ours: locate.h.
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>

#include <fcntl.h>
#include <unistd.h>

#include "preload/locate.h"
#include "preload/next.h"

using namespace verbena::preload;

namespace {

// As getcwd(3), the C library's way of allocating included.
[[nodiscard]] char* give_path(const std::string& path, char* out, size_t size) {
  const size_t needed = path.size() + 1;
  if (out == nullptr) {
    if (size == 0) return ::strdup(path.c_str());
    if (size >= needed) out = static_cast<char*>(std::malloc(size));
    if (out == nullptr) {
      errno = size >= needed ? ENOMEM : ERANGE;
      return nullptr;
    }
  } else if (size < needed) {
    errno = size == 0 ? EINVAL : ERANGE;
    return nullptr;
  }
  std::memcpy(out, path.c_str(), needed);
  return out;
}

}  // namespace

VERBENA_EXPORT int chdir(const char* path) {
  const Place place = locate(AT_FDCWD, path);
  if (place) return enter(place.path());
  const int result = NEXT(chdir)(place.for_kernel(path));
  forget_current_directory();
  return result;
}
VERBENA_EXPORT int fchdir(int fd) {
  if (const auto shown = shown_by(fd)) return enter(*shown);
  const int result = NEXT(fchdir)(fd);
  forget_current_directory();
  return result;
}

VERBENA_EXPORT char* getcwd(char* out, size_t size) {
  if (const auto path = current_directory()) return give_path(*path, out, size);
  return NEXT(getcwd)(out, size);
}
VERBENA_EXPORT char* get_current_dir_name() {
  if (const auto path = current_directory()) return give_path(*path, nullptr, 0);
  return NEXT(get_current_dir_name)();
}
VERBENA_EXPORT char* getwd(char* out) {
  if (const auto path = current_directory()) return give_path(*path, out, PATH_MAX);
  return NEXT(getwd)(out);
}

// What the headers make of these under _FORTIFY_SOURCE.
// NOLINTBEGIN(readability-identifier-naming): as the C library names them
extern "C" char* __getcwd_chk(char*, size_t, size_t);
extern "C" char* __getwd_chk(char*, size_t);
// NOLINTEND(readability-identifier-naming)

VERBENA_EXPORT char* __getcwd_chk(char* out, size_t size, size_t room) {
  const auto path = current_directory();
  if (path && size <= room) return give_path(*path, out, size);
  return NEXT(__getcwd_chk)(out, size, room);
}
VERBENA_EXPORT char* __getwd_chk(char* out, size_t room) {
  if (const auto path = current_directory()) return give_path(*path, out, room);
  return NEXT(__getwd_chk)(out, room);
}
