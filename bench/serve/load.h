// SPDX-License-Identifier: Apache-2.0
// Requests of one size to a server, by so many clients with so many each under way at once.
#pragma once

#include <cstdint>
#include <string>

namespace verbena::bench {

struct Load {
  bool write = false;
  uint32_t bytes = 0;
  uint32_t clients = 1;
  uint32_t depth = 1;
  double seconds = 1;
};
// Each client has so many places for values, which it uses one after the other.
inline constexpr uint32_t kPlaces = 32;

// Bytes per second; what goes wrong ends the program. The values are there before time runs.
[[nodiscard]] double through_verbena(const Load& load, uint16_t port, const std::string& libraries);
[[nodiscard]] double through_redis(const Load& load, uint16_t port);
[[nodiscard]] double through_memcached(const Load& load, uint16_t port);

}  // namespace verbena::bench
