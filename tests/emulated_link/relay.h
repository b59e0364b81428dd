// SPDX-License-Identifier: Apache-2.0
// Carries packets between the two hosts, each direction through its bottleneck. One thread, which
// sleeps until a packet comes or is due.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "emulated_link/bottleneck.h"
#include "emulated_link/host_end.h"
#include "emulated_link/packet_pool.h"
#include "emulated_link/schedule.h"

namespace verbena::emulated {

// How much later than due packets left: whether this process could follow.
struct Lateness {
  uint64_t packets = 0;
  Duration sum = 0;
  Duration max = 0;
};

class Relay {
 public:
  // From host 0 to 1, and from 1 to 0.
  using Both = std::array<Impairments, 2>;

  Relay(std::array<HostEnd, 2> ends, const Both& impairments, uint32_t mtu_bytes, uint64_t seed);

  // Until `control` can be read, or until the moment.
  void run(int control, Time until);
  [[nodiscard]] static Time now();
  // What happened since the last time, as JSON on one line.
  [[nodiscard]] std::string report();

 private:
  struct Direction {
    int in = -1;
    int out = -1;
    Bottleneck bottleneck;
    Schedule schedule;
    Lateness lateness;
    uint64_t refused = 0;         // by the receiving host's kernel
    uint64_t dropped_before = 0;  // until the last report
  };

  // Some of what waits to be read.
  void take(Direction& direction);
  // Who sent it hears that it is too large, if it is to.
  static void tell(Direction& direction, std::span<const uint8_t> packet);
  void deliver(Direction& direction);
  [[nodiscard]] std::string report(size_t index);

  std::array<HostEnd, 2> ends_;
  // How much later than due a packet may leave, so that some leave by one wake-up.
  Duration slack_;
  PacketPool pool_;
  std::array<Direction, 2> directions_;
};

}  // namespace verbena::emulated
