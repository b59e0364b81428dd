// SPDX-License-Identifier: Apache-2.0
// Opens a damaged store in every way there is and looks at all of it.
#pragma once

#include <string>

#include "damage.h"
#include "sample.h"

namespace verbena::store::trial {

struct Counts {
  uint64_t opened = 0;
  uint64_t refused = 0;
  uint64_t lost = 0;    // chunks of data that could not be read
  uint64_t copies = 0;  // of log, checkpoint and superblocks
  uint64_t healed = 0;  // stores that were written to beside the damage
  uint64_t salvaged = 0;
};

// In a folder of its own. What is wrong, or nothing.
[[nodiscard]] std::string examine_store(const Sample& sample, const DamagedStore& damaged,
                                        const std::string& folder, RandomSource& random,
                                        Counts& counts);

}  // namespace verbena::store::trial
