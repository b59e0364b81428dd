// SPDX-License-Identifier: Apache-2.0
// One seed, whole: draws a scenario, runs it with faults, heals it, and checks that everything
// ended well.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/scenes.h"
#include "transport/counters.h"

namespace verbena::sim {

struct SeedResult {
  bool good = false;
  std::string violated;
  uint64_t hash = 0;
  uint64_t events = 0;
  uint64_t operations = 0;
  uint64_t faults = 0;
  uint64_t packets = 0;
  uint64_t attacks = 0;
  transport::Counters counters;
  Scenes scenes;
};

// `pcap`: every frame that was sent, if not nullptr.
[[nodiscard]] SeedResult run_seed(uint64_t seed, bool print, std::vector<uint8_t>* pcap);

}  // namespace verbena::sim
