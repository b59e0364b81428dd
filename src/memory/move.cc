// SPDX-License-Identifier: Apache-2.0
// Body bytes go by memcpy: a race with the program is the program's to avoid, as with a NIC, and
// the bytes have no type that a compiler could reason with. ThreadSanitizer does not know that (it
// checks memcpy as an ordinary access), so its builds copy with relaxed atomics instead. It then
// sees a missing release below only where the program acquires the very unit that is stored, and
// reads the other bytes plainly (visibility_test.cc does); elsewhere nothing but the hardware
// tells.
#include "memory/move.h"

#include <cstring>

#if defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define VERBENA_THREAD_SANITIZER 1
#endif
#elif defined(__SANITIZE_THREAD__)
#define VERBENA_THREAD_SANITIZER 1
#endif

namespace verbena::memory {
namespace {

// Words of a program's memory, whatever type the program gave them.
using Word16 [[gnu::may_alias]] = uint16_t;
using Word32 [[gnu::may_alias]] = uint32_t;
using Word64 [[gnu::may_alias]] = uint64_t;

#ifdef VERBENA_THREAD_SANITIZER
void copy_in(uint8_t* to, const uint8_t* from, size_t n) {
  for (size_t i = 0; i < n; ++i) __atomic_store_n(to + i, from[i], __ATOMIC_RELAXED);
}
void copy_out(uint8_t* to, const uint8_t* from, size_t n) {
  for (size_t i = 0; i < n; ++i) to[i] = __atomic_load_n(from + i, __ATOMIC_RELAXED);
}
#else
void copy_in(uint8_t* to, const uint8_t* from, size_t n) { std::memmove(to, from, n); }
void copy_out(uint8_t* to, const uint8_t* from, size_t n) { std::memcpy(to, from, n); }
#endif

// One aligned store of `unit` bytes, after everything before it.
void store_unit(uint8_t* to, const uint8_t* from, size_t unit) {
  switch (unit) {
    case 8: {
      uint64_t word;
      std::memcpy(&word, from, sizeof word);
      __atomic_store_n(reinterpret_cast<Word64*>(to), word, __ATOMIC_RELEASE);
      return;
    }
    case 4: {
      uint32_t word;
      std::memcpy(&word, from, sizeof word);
      __atomic_store_n(reinterpret_cast<Word32*>(to), word, __ATOMIC_RELEASE);
      return;
    }
    case 2: {
      uint16_t word;
      std::memcpy(&word, from, sizeof word);
      __atomic_store_n(reinterpret_cast<Word16*>(to), word, __ATOMIC_RELEASE);
      return;
    }
    default: __atomic_store_n(to, *from, __ATOMIC_RELEASE); return;
  }
}

}  // namespace

void store(uint8_t* to, std::span<const uint8_t> from, bool last) {
  const size_t n = from.size();
  if (n == 0) return;
  if (!last && n > 8) {
    copy_in(to, from.data(), n);
    return;
  }
  const size_t unit = final_unit(to, n);
  if (n > unit) copy_in(to, from.data(), n - unit);
  store_unit(to + (n - unit), from.data() + (n - unit), unit);
}

void load(const uint8_t* from, std::span<uint8_t> to) {
  if (!to.empty()) copy_out(to.data(), from, to.size());
}

}  // namespace verbena::memory
