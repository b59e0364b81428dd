// SPDX-License-Identifier: Apache-2.0
// One history of a store on a recording medium, drawn from a seed: work, closing and opening again,
// killed processes, power cuts from which it goes on. Then every power cut that there could have
// been.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "recovery_check.h"

namespace verbena::store::trial {

struct CrashOptions {
  uint32_t operations = 40;
  uint32_t reopen_one_in = 10;  // operations
  Effort effort;
  Depth depth;
  uint32_t omit = 0;   // Options::omit
  bool bursts = true;  // at its end, of more records than an extent of the log holds
  bool trace = false;
};

struct CrashResult {
  std::string violation;           // empty: none
  std::vector<std::string> trace;  // what was done
  uint64_t operations = 0;
  CheckCounts counts;
};

[[nodiscard]] CrashResult run_crashes(uint64_t seed, const CrashOptions& options);

}  // namespace verbena::store::trial
