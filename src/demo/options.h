// SPDX-License-Identifier: Apache-2.0
// The command line of verbena-demo.
#pragma once

#include <chrono>
#include <cstdint>
#include <span>
#include <string>

#include "base/result.h"

namespace verbena::demo {

struct Options {
  bool help = false;
  bool simulated = false;
  bool limits = false;
  bool json = false;
  bool ipv6 = false;
  uint64_t seed = 1;
  std::chrono::milliseconds burst{200};
  std::string pcap = "verbena-demo.pcap";
};

extern const char* const kHelp;

// The arguments after the program's name; the error says what is wrong with them.
[[nodiscard]] Result<Options, std::string> parse_options(std::span<const char* const> arguments);

}  // namespace verbena::demo
