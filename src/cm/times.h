// SPDX-License-Identifier: Apache-2.0
// Time as the messages say it: a 5-bit code c means 4.096 us * 2^c.
#pragma once

#include <cstdint>

#include "base/time.h"

namespace verbena::cm {

inline constexpr uint8_t kMaxTimeCode = 31;

[[nodiscard]] constexpr Duration from_code(uint8_t code) {
  return Duration{4096} << (code & kMaxTimeCode);
}

}  // namespace verbena::cm
