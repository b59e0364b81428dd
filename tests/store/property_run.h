// SPDX-License-Identifier: Apache-2.0
// A long sequence of operations, drawn from a seed, on a store and on the model of one, which must
// agree after each step.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "places.h"

namespace verbena::store::trial {

struct PropertyOptions {
  uint32_t steps = 400;
  bool trace = false;
};

struct PropertyResult {
  std::string violation;           // empty: none
  std::vector<std::string> trace;  // the last steps
  uint64_t steps = 0;
  uint64_t refused_full = 0;
  uint64_t reopened = 0;
  uint64_t held_over_changes = 0;  // prepared reads
};

// The place is new; it is left as it is.
[[nodiscard]] PropertyResult run_property(uint64_t seed, Place& place,
                                          const PropertyOptions& options);

}  // namespace verbena::store::trial
