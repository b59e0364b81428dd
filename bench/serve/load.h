// SPDX-License-Identifier: Apache-2.0
// Requests of one size to a server, by so many clients with so many each under way at once.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "common/ends.h"

namespace verbena::bench {

struct Load {
  bool write = false;
  uint32_t bytes = 0;
  uint32_t clients = 1;
  uint32_t depth = 1;
  double seconds = 1;
  bool checked = true;  // ours: by the client; otherwise its caller has the CRC, or takes it
};
// Each client has so many places for values, which it uses one after the other.
inline constexpr uint32_t kPlaces = 32;

// Runs all of the clients at once, for as long as the load says; bytes per second.
template <typename Clients>
[[nodiscard]] double run_all(const Load& load, const Clients& clients) {
  std::atomic<bool> stop{false};
  std::atomic<uint64_t> count{0};
  const double begin = now_s();
  std::vector<std::thread> threads;
  for (const auto& client : clients) {
    threads.emplace_back([&] { count += client->run(stop); });
  }
  std::this_thread::sleep_for(std::chrono::duration<double>(load.seconds));
  stop = true;
  for (auto& thread : threads) thread.join();
  return static_cast<double>(count) * load.bytes / (now_s() - begin);
}

// Bytes per second; what goes wrong ends the program. The values are there before time runs.
[[nodiscard]] double through_verbena(const Load& load, uint16_t port, const std::string& libraries,
                                     const std::string& fabric);
[[nodiscard]] double through_redis(const Load& load, uint16_t port);
[[nodiscard]] double through_memcached(const Load& load, uint16_t port);
[[nodiscard]] double through_nbd(const Load& load, uint16_t port);

}  // namespace verbena::bench
