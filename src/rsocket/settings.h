// SPDX-License-Identifier: Apache-2.0
// What an rsocket begins with: rdma-core's defaults, or what the administrator has written into the
// files of /etc/rdma/rsocket (rsocket(7)).
#pragma once

#include <chrono>
#include <cstdint>

namespace verbena::rsocket {

struct Sizes {
  uint32_t receive_bytes = 1 << 17;
  uint32_t send_bytes = 1 << 17;
  uint32_t send_places = 384;
  uint32_t receive_places = 384;
  uint32_t inline_bytes = 64;
  uint16_t iomap_entries = 0;
};

struct Settings {
  Sizes sizes;
  // So long a thread looks again before it sleeps.
  std::chrono::microseconds polling_time{10};
};

// Read once.
[[nodiscard]] const Settings& settings();

// Within what the protocol and this library can do.
[[nodiscard]] Sizes bounded(const Sizes& wanted, uint32_t most_places);

}  // namespace verbena::rsocket
