// SPDX-License-Identifier: Apache-2.0
// What reaches the other end over a way with a queue that is shared (shared_way.h): as a table, and
// as figures that must hold for every seed.
#pragma once

#include <cstdint>

namespace verbena::sim {

void print_congestion_table();

// True when all figures hold for seeds [first, first + seeds); says which do not.
[[nodiscard]] bool check_congestion(uint64_t first, uint64_t seeds);

}  // namespace verbena::sim
