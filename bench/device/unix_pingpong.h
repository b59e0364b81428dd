// SPDX-License-Identifier: Apache-2.0
// Two processes that sleep in read() of a unix socket pair.
#pragma once

#include <cstdint>
#include <vector>

#include "common/ends.h"

namespace verbena::bench {

// The initiator gives one-way times in microseconds.
[[nodiscard]] std::vector<double> unix_pingpong(Role role, const Control& control, uint32_t bytes,
                                                uint32_t rounds);

}  // namespace verbena::bench
