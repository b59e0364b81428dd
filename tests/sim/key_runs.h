// SPDX-License-Identifier: Apache-2.0
// Messages through memory keys, over a network with faults.
#pragma once

#include <cstdint>

namespace verbena::sim {

// For each seed the same messages at every MTU: contents, signatures and what is told of wrong ones
// must be the model's, and the same. Says what was violated, and how to repeat it; true: nothing.
[[nodiscard]] bool check_keys(uint64_t first, uint64_t seeds);

}  // namespace verbena::sim
