// SPDX-License-Identifier: Apache-2.0
// A list of 256 pieces without alignment is filled from the network, over and over: by an indirect
// key, and by the alternatives that programs use without one.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "common/ends.h"

namespace verbena::bench {

enum class Way : uint8_t {
  kIndirectKey,   // configured for each transfer; one WRITE
  kManyRegions,   // each piece registered, and deregistered; a WRITE each
  kBounce,        // one WRITE to memory side by side, then copied by the program
  kPieceByPiece,  // one region over all; a transaction (WRITE, completion) for each piece
  kSmallBlocks,   // a key of equal blocks of 64 bytes, of which all pieces are multiples
};
inline constexpr std::array kWays{Way::kIndirectKey, Way::kManyRegions, Way::kBounce,
                                  Way::kPieceByPiece, Way::kSmallBlocks};
[[nodiscard]] const char* name_of(Way way);

// Data bytes per second, registration and all; one transfer of 1 MiB at a time.
[[nodiscard]] std::vector<double> fill_list(Role role, const Control& control, Way way,
                                            uint32_t transfers);

// Per second: a key configured by a work request for a list of so many pieces, and invalidated by
// another; or a region over memory that is present registered and deregistered.
[[nodiscard]] std::vector<double> keys_per_second(Role role, const Control& control,
                                                  uint32_t pieces, uint32_t count);
[[nodiscard]] std::vector<double> regions_per_second(Role role, const Control& control,
                                                     uint32_t bytes, uint32_t count);

}  // namespace verbena::bench
