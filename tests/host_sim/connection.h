// SPDX-License-Identifier: Apache-2.0
// What two simulated processes tell each other, beside the device, to connect two queue pairs.
#pragma once

#include <array>
#include <cstdint>

#include "base/ids.h"

namespace verbena::host_sim {

struct Connection {
  struct End {
    uint32_t process = 0;
    Qpn qpn{};  // 0: it has made none yet
    uint32_t first_psn = 0;
    uint64_t address = 0;  // of the memory for this connection
    RKey rkey{};
    // Receives from its peer, which may send.
    bool connected = false;
  };
  std::array<End, 2> ends{};

  [[nodiscard]] bool is_of(uint32_t process) const {
    return ends[0].process == process || ends[1].process == process;
  }
  [[nodiscard]] End& end_of(uint32_t process) { return ends[ends[0].process == process ? 0 : 1]; }
  [[nodiscard]] End& peer_of(uint32_t process) { return ends[ends[0].process == process ? 1 : 0]; }
};

}  // namespace verbena::host_sim
