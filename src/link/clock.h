// SPDX-License-Identifier: Apache-2.0
// The clocks. Below this folder time is an argument.
#pragma once

#include <time.h>

#include "base/time.h"

namespace verbena::link {

[[nodiscard]] inline Time read_clock(clockid_t which) {
  timespec now{};
  ::clock_gettime(which, &now);
  return Time{now.tv_sec} * kSecond + now.tv_nsec;
}

// Nanoseconds that all processes of the host agree on.
[[nodiscard]] inline Time monotonic_now() { return read_clock(CLOCK_MONOTONIC); }
// Nanoseconds since 1970.
[[nodiscard]] inline Time wall_now() { return read_clock(CLOCK_REALTIME); }

}  // namespace verbena::link
