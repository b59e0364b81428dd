// SPDX-License-Identifier: Apache-2.0
// The command line of the emulated link.
#pragma once

#include <cstdint>
#include <string>

#include "base/time.h"
#include "emulated_link/bottleneck.h"

namespace verbena::emulated {

struct Options {
  Impairments impairments;  // of both directions
  uint32_t mtu_bytes = 1500;
  uint64_t seed = 1;
  Duration run_time = 600 * kSecond;
  bool help = false;
};

[[nodiscard]] const char* usage();
// False, and what is wrong.
[[nodiscard]] bool parse(int argc, char** argv, Options& options, std::string& problem);

}  // namespace verbena::emulated
