// SPDX-License-Identifier: Apache-2.0
// A hint to the core that this is a loop waiting for another core.
#pragma once

namespace verbena {

inline void cpu_relax() {
#if defined(__aarch64__)
  asm volatile("isb" ::: "memory");  // `yield` is a no-op on most cores
#elif defined(__x86_64__)
  __builtin_ia32_pause();
#else
  asm volatile("" ::: "memory");
#endif
}

}  // namespace verbena
