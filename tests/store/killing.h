// SPDX-License-Identifier: Apache-2.0
// A writer in a process of its own, killed at random moments.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "store/directory.h"

namespace verbena::store::trial {

struct KillResult {
  std::string violation;           // empty: none
  std::vector<std::string> trace;  // of the last round
  uint64_t kills = 0;
  uint64_t while_opening = 0;
  uint64_t operations = 0;
  uint64_t kept = 0;  // operations that were not flushed and are there
  uint64_t lost = 0;  // operations that were not flushed and are not
};

[[nodiscard]] KillResult run_kills(uint64_t seed, Kind kind, uint64_t rounds, bool trace);

}  // namespace verbena::store::trial
