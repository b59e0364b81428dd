// SPDX-License-Identifier: Apache-2.0
// What reaches the other end over a way with a queue that is shared (shared_way.h): as a table, and
// as figures that must hold for every seed.
#pragma once

#include <cstdint>
#include <string_view>

namespace verbena::sim {

// Of the rows whose labels ("WRITE, 1000 Mb/s, 10.0 ms, queue 1.00 BDP, 8 QPs") contain `rows`,
// with this seed.
void print_congestion_table(std::string_view rows, uint64_t seed);

// True when all figures of such rows hold for seeds [first, first + seeds); says which do not.
[[nodiscard]] bool check_congestion(std::string_view rows, uint64_t first, uint64_t seeds);

}  // namespace verbena::sim
