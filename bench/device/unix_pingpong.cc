// SPDX-License-Identifier: Apache-2.0
#include "unix_pingpong.h"

#include <array>

namespace verbena::bench {

// The control's own socket is one, and blocks.
std::vector<double> unix_pingpong(Role role, const Control& control, uint32_t bytes,
                                  uint32_t rounds) {
  std::array<uint8_t, 64> data{};
  std::vector<double> times;
  times.reserve(rounds);
  control.barrier();
  for (uint32_t i = 0; i < rounds; ++i) {
    const double begin = now_s();
    if (role == Role::kInitiator) control.tell(data.data(), bytes);
    control.hear(data.data(), bytes);
    if (role == Role::kTarget) control.tell(data.data(), bytes);
    times.push_back((now_s() - begin) / 2 * 1e6);
  }
  return times;
}

}  // namespace verbena::bench
