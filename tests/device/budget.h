// SPDX-License-Identifier: Apache-2.0
// How much of everything: sanitizers cost five to twenty times the time. VERBENA_SOAK=N in the
// environment multiplies what is repeated, for a long run by hand.
#pragma once

#include <chrono>
#include <cstdint>
#include <cstdlib>

namespace verbena::device::testing {

#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitized = true;
#else
inline constexpr bool kSanitized = false;
#endif

// Nothing waits longer than this: a hang is a failure with a name.
inline constexpr std::chrono::seconds kPatience{kSanitized ? 120 : 40};

[[nodiscard]] inline uint64_t repeat(uint64_t released, uint64_t sanitized) {
  const char* const soak = std::getenv("VERBENA_SOAK");
  const uint64_t times = soak != nullptr ? std::strtoull(soak, nullptr, 10) : 1;
  return (kSanitized ? sanitized : released) * (times == 0 ? 1 : times);
}

}  // namespace verbena::device::testing
