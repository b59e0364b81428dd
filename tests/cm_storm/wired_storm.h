// SPDX-License-Identifier: Apache-2.0
// A connect storm with the transport: hosts whose connection managers speak through queue pair 1 of
// their endpoints, and whose connections carry messages, on one simulated network that loses,
// repeats, reorders, delays and corrupts the packets of both; hosts that are cut off for a while,
// or for good. The other storm (storm.h) has many processes on a host and strangers, and no
// transport.
//
// What must hold, besides what station.h says: when all is quiet, which is soon, each connection is
// up at both ends and every message has arrived, or it is up at neither; and when the programs have
// let go, nothing is left in either layer.
#pragma once

#include <cstdint>
#include <string>

#include "cm_storm/station.h"

namespace verbena::cm_storm {

struct WiredOutcome {
  std::string violation;  // empty: none
  Sights sights;
  uint64_t connects = 0;
  uint64_t packets = 0;
  uint64_t faults = 0;
  uint64_t hash = 0;  // of all that happened
};

[[nodiscard]] WiredOutcome run_wired_storm(uint64_t seed, bool trace);

}  // namespace verbena::cm_storm
