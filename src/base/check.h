// SPDX-License-Identifier: Apache-2.0
// CHECK: a broken invariant of our own code ends the process, in release builds too.
// Never for bytes that came from a peer, a file or a caller: those are answered with an error.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace verbena {

[[noreturn]] inline void check_failed(const char* what, const char* file, int line) {
  std::fprintf(stderr, "verbena: invariant broken: %s (%s:%d)\n", what, file, line);
  std::abort();
}

}  // namespace verbena

#define VERBENA_CHECK(condition)                               \
  do {                                                         \
    if (!(condition)) [[unlikely]] {                           \
      ::verbena::check_failed(#condition, __FILE__, __LINE__); \
    }                                                          \
  } while (false)
