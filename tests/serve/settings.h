// SPDX-License-Identifier: Apache-2.0
// How much of a test to run: a number in an environment variable.
#pragma once

#include <cstdint>
#include <cstdlib>

namespace verbena::serve {

[[nodiscard]] inline uint64_t setting(const char* name, uint64_t otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

}  // namespace verbena::serve
