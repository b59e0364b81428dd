// SPDX-License-Identifier: Apache-2.0
// One simulated run with faults, told packet by packet: two hosts, one reliable connection, four
// operations, and a network that loses, doubles, corrupts and swaps packets where the script says
// so.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace verbena::demo {

struct StoryOptions {
  uint64_t seed = 1;  // of keys, numbers and data; the faults are the script's
  bool colors = false;
};

struct StoryResult {
  bool good = false;             // every operation completed and the memory is as it should be
  std::string text;              // the story
  std::vector<uint8_t> capture;  // pcap: what was sent, a corrupted packet also as it arrived
};

[[nodiscard]] StoryResult tell_story(const StoryOptions& options);

}  // namespace verbena::demo
