// SPDX-License-Identifier: Apache-2.0
// Several threads on one store, as in a server: each changes objects of its own, and beside them
// checkpoints, compactions and scrubs go on, on a medium that is too small, or whose fences fail.
// Then power cuts at moments of what was recorded: of each thread's changes a prefix is there, with
// everything that a flush made durable, and nothing is damaged.
//
// A seed gives what each thread does, but not how threads meet.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace verbena::store::trial {

struct CrashThreadsOptions {
  uint32_t threads = 3;
  uint32_t operations = 60;  // of each
  uint32_t moments = 60;     // at which the power fails
};

struct CrashThreadsResult {
  std::string violation;           // empty: none
  std::vector<std::string> trace;  // what was done, in the order in which it was begun
  uint64_t operations = 0;
  uint64_t checkpoints = 0;
  uint64_t compactions = 0;
  uint64_t images = 0;
};

[[nodiscard]] CrashThreadsResult run_crash_threads(uint64_t seed,
                                                   const CrashThreadsOptions& options);

}  // namespace verbena::store::trial
