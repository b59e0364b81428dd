// SPDX-License-Identifier: Apache-2.0
// Reading a file from its start through a descriptor that is kept: counters are current then, as
// the kernel makes the content of a file in /sys.
#include <fcntl.h>
#include <unistd.h>

#include "preload/next.h"
#include "preload/shown.h"

using namespace verbena::preload;

VERBENA_EXPORT ssize_t read(int fd, void* out, size_t size) {
  if (may_be_counter(fd) && ::lseek(fd, 0, SEEK_CUR) == 0) read_anew(fd);
  return NEXT(read)(fd, out, size);
}
VERBENA_EXPORT ssize_t pread(int fd, void* out, size_t size, off_t offset) {
  if (offset == 0 && may_be_counter(fd)) read_anew(fd);
  return NEXT(pread)(fd, out, size, offset);
}
VERBENA_EXPORT ssize_t pread64(int fd, void* out, size_t size, off64_t offset) {
  if (offset == 0 && may_be_counter(fd)) read_anew(fd);
  return NEXT(pread64)(fd, out, size, offset);
}

// What the headers make of these under _FORTIFY_SOURCE.
// NOLINTBEGIN(readability-identifier-naming): as the C library names them
extern "C" ssize_t __read_chk(int, void*, size_t, size_t);
extern "C" ssize_t __pread_chk(int, void*, size_t, off_t, size_t);
extern "C" ssize_t __pread64_chk(int, void*, size_t, off64_t, size_t);
// NOLINTEND(readability-identifier-naming)

VERBENA_EXPORT ssize_t __read_chk(int fd, void* out, size_t size, size_t room) {
  if (may_be_counter(fd) && ::lseek(fd, 0, SEEK_CUR) == 0) read_anew(fd);
  return NEXT(__read_chk)(fd, out, size, room);
}
VERBENA_EXPORT ssize_t __pread_chk(int fd, void* out, size_t size, off_t offset, size_t room) {
  if (offset == 0 && may_be_counter(fd)) read_anew(fd);
  return NEXT(__pread_chk)(fd, out, size, offset, room);
}
VERBENA_EXPORT ssize_t __pread64_chk(int fd, void* out, size_t size, off64_t offset, size_t room) {
  if (offset == 0 && may_be_counter(fd)) read_anew(fd);
  return NEXT(__pread64_chk)(fd, out, size, offset, room);
}
