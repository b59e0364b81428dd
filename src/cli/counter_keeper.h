// SPDX-License-Identifier: Apache-2.0
// Keeps the counters of a namespace view current: its files are plain ones, and nobody else would
// write them. A process of its own does, which ends with the program.
#pragma once

#include "identity/tree.h"

namespace verbena::cli {

// For the program that this process becomes. Before the files are closed to it: the keeper's view
// of them stays open. What the system refuses leaves the counters as they are.
void start_counter_keeper(const identity::Tree& tree);

}  // namespace verbena::cli
