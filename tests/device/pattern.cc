// SPDX-License-Identifier: Apache-2.0
#include "pattern.h"

#include <algorithm>
#include <cstring>

namespace verbena::device::testing {
namespace {

constexpr uint8_t kGuard = 0xe7;

// A READ that was asked for twice is answered once more, from memory that its owner may use again
// by then, as by any device. ThreadSanitizer need not know: it does not see these stores.
#if defined(__SANITIZE_THREAD__)
__attribute__((no_sanitize("thread"))) void store(uint8_t* to, const uint8_t* from, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) to[i] = from[i];
}
__attribute__((no_sanitize("thread"))) void store(uint8_t* to, uint8_t value, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) to[i] = value;
}
#else
void store(uint8_t* to, const uint8_t* from, size_t bytes) { std::memcpy(to, from, bytes); }
void store(uint8_t* to, uint8_t value, size_t bytes) { std::memset(to, value, bytes); }
#endif

[[nodiscard]] constexpr uint64_t word(uint64_t seed, uint64_t index) {
  const uint64_t z = (index + 1) * 0x9e3779b97f4a7c15 + seed * 0xbf58476d1ce4e5b9;
  return z ^ (z >> 29);
}

}  // namespace

void fill(std::span<uint8_t> bytes, uint64_t seed) {
  for (size_t at = 0; at < bytes.size(); at += 8) {
    const uint64_t value = word(seed, at / 8);
    store(bytes.data() + at, reinterpret_cast<const uint8_t*>(&value),
          std::min<size_t>(8, bytes.size() - at));
  }
}

std::string differs(std::span<const uint8_t> bytes, uint64_t seed) {
  for (size_t at = 0; at < bytes.size(); at += 8) {
    const uint64_t value = word(seed, at / 8);
    const size_t n = std::min<size_t>(8, bytes.size() - at);
    if (std::memcmp(bytes.data() + at, &value, n) == 0) continue;
    return "differs in the 8 bytes at " + std::to_string(at) + " of " +
           std::to_string(bytes.size());
  }
  return {};
}

void guard(std::span<uint8_t> range) {
  store(range.data() - kGuardBytes, kGuard, range.size() + 2 * kGuardBytes);
}

std::string trespass(std::span<const uint8_t> range) {
  for (uint64_t i = 1; i <= kGuardBytes; ++i) {
    if (range.data()[-static_cast<int64_t>(i)] != kGuard) {
      return "written " + std::to_string(i) + " bytes before the range";
    }
    if (range.data()[range.size() + i - 1] != kGuard) {
      return "written " + std::to_string(i) + " bytes behind the range";
    }
  }
  return {};
}

}  // namespace verbena::device::testing
