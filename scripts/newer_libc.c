// SPDX-License-Identifier: Apache-2.0
// What GCC's static libraries of Debian 12 use of its C library, and Debian 11's has not: scripts/old-libc adds it to
// the part of the C library that is linked into each program. Compiled with Debian 11's headers.
#define _GNU_SOURCE
#include <errno.h>
#include <link.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>

#define HIDDEN __attribute__((visibility("hidden")))

// glibc 2.32. Whether there is one thread is not known: counts are always atomic.
HIDDEN char __libc_single_threaded = 0;

// glibc 2.36, for std::random_device and libevent.
HIDDEN void arc4random_buf(void* memory, size_t bytes) {
  for (size_t done = 0; done < bytes;) {
    const ssize_t got = getrandom((char*)memory + done, bytes - done, 0);
    if (got > 0) {
      done += (size_t)got;
    } else if (errno != EINTR) {
      abort();
    }
  }
}
HIDDEN uint32_t arc4random(void) {
  uint32_t number = 0;
  arc4random_buf(&number, sizeof number);
  return number;
}

// glibc 2.35, for exceptions: the object that has an address, and its table for unwinding. As in <dlfcn.h> of the
// architectures that have no more members: arm64 and x86-64.
struct dl_find_object {
  unsigned long long flags;
  void* map_start;
  void* map_end;
  struct link_map* link_map;
  void* eh_frame;
  unsigned long long reserved[7];
};

struct search {
  uintptr_t address;
  struct dl_find_object* found;
};

// 1: found. -1: here, but there is no table.
static int look(struct dl_phdr_info* object, size_t size, void* data) {
  (void)size;
  const struct search* const search = data;
  uintptr_t start = UINTPTR_MAX;
  uintptr_t end = 0;
  uintptr_t table = 0;
  int here = 0;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const ElfW(Phdr)* const part = &object->dlpi_phdr[i];
    const uintptr_t at = object->dlpi_addr + part->p_vaddr;
    if (part->p_type == PT_GNU_EH_FRAME) table = at;
    if (part->p_type != PT_LOAD) continue;
    if (at < start) start = at;
    if (at + part->p_memsz > end) end = at + part->p_memsz;
    if (search->address >= at && search->address - at < part->p_memsz) here = 1;
  }
  if (!here) return 0;
  if (table == 0) return -1;
  *search->found = (struct dl_find_object){
      .map_start = (void*)start, .map_end = (void*)end, .eh_frame = (void*)table};
  return 1;
}

HIDDEN int _dl_find_object(void* address, struct dl_find_object* found) {
  struct search search = {(uintptr_t)address, found};
  return dl_iterate_phdr(look, &search) == 1 ? 0 : -1;
}
