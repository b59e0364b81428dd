// SPDX-License-Identifier: Apache-2.0
// A look at the loopback interface from outside while something runs: what the kernel really put
// there, IP identification and all.
#pragma once

#include <cstdint>
#include <functional>

namespace verbena::bench {

struct WireSample {
  bool able = false;  // false: not allowed to look
  uint64_t frames = 0;
  uint64_t packets = 0;
  uint64_t wrong = 0;  // packets whose ICRC does not fit
};

[[nodiscard]] WireSample sample_wire(const std::function<void()>& meanwhile);

}  // namespace verbena::bench
