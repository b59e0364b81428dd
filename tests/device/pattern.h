// SPDX-License-Identifier: Apache-2.0
// Bytes that are known by their place and a seed, and guards around a range, so that a byte which
// is wrong, shifted, missing or one too many shows.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace verbena::device::testing {

inline constexpr uint64_t kGuardBytes = 64;

void fill(std::span<uint8_t> bytes, uint64_t seed);
// Empty when the bytes are the seed's; else the first difference, for a person.
[[nodiscard]] std::string differs(std::span<const uint8_t> bytes, uint64_t seed);

// The range and kGuardBytes before and behind it become the guard's byte. The memory must be there.
void guard(std::span<uint8_t> range);
// Empty when the bytes before and behind are still the guard's.
[[nodiscard]] std::string trespass(std::span<const uint8_t> range);

}  // namespace verbena::device::testing
