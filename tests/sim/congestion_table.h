// SPDX-License-Identifier: Apache-2.0
// What reaches the other end over a way with a queue that is shared (shared_way.h): as a table, and
// as figures that must hold for every seed.
#pragma once

#include <cstdint>
#include <string_view>

namespace verbena::sim {

// Only the rows whose names contain this.
void print_congestion_table(std::string_view rows);

// True when all figures hold for seeds [first, first + seeds); says which do not.
[[nodiscard]] bool check_congestion(uint64_t first, uint64_t seeds);

}  // namespace verbena::sim
