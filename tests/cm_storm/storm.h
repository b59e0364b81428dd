// SPDX-License-Identifier: Apache-2.0
// A connect storm: several hosts with several processes each, hundreds of connections, a bad
// network, a stranger who meddles, processes that are killed and started again. What must hold:
//
//   - when all is quiet, each connection is up at both ends, which agree about it, or at neither;
//   - that is so in bounded time;
//   - when the programs have let go of everything, every table is empty.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cm/counters.h"

namespace verbena::cm_storm {

struct Outcome {
  std::vector<std::string> complaints;
  size_t connects = 0;
  size_t connected = 0;  // ends that were connected at some time
  size_t lasting = 0;    // ends that still were when all was quiet
  size_t messages = 0;
  cm::Counters counters;
};

[[nodiscard]] Outcome run_storm(uint64_t seed, bool trace);

}  // namespace verbena::cm_storm
