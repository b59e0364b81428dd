// SPDX-License-Identifier: Apache-2.0
// Time is an argument: nanoseconds from an arbitrary start, monotonic. Nothing below src/link reads
// a clock.
#pragma once

#include <cstdint>
#include <limits>

namespace verbena {

using Time = int64_t;      // a moment, ns
using Duration = int64_t;  // a span, ns

inline constexpr Time kNever = std::numeric_limits<Time>::max();
inline constexpr Duration kMicrosecond = 1'000;
inline constexpr Duration kMillisecond = 1'000'000;
inline constexpr Duration kSecond = 1'000'000'000;

}  // namespace verbena
