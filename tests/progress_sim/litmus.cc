// SPDX-License-Identifier: Apache-2.0
// The scheduler's own memory, by the litmus test of message passing: a relaxed store is seen before
// those ahead of it, in some world; a release never is.
#include <atomic>
#include <cstdint>
#include <cstdio>

#include "progress_sim/scheduler.h"

namespace verbena::progress_sim {
namespace {

constexpr uint64_t kSeeds = 500;

// Whether the flag was seen, and what it is to announce was not.
[[nodiscard]] bool is_early(uint64_t seed, std::memory_order order) {
  Scheduler scheduler(seed);
  std::atomic<uint32_t> data = 0;
  std::atomic<uint32_t> flag = 0;
  bool early = false;
  scheduler.spawn(1, "writer", [&] {
    data.store(1, std::memory_order_relaxed);
    flag.store(1, order);
    for (int i = 0; i < 100; ++i) scheduler.point();  // its end would write all out
  });
  scheduler.spawn(2, "reader", [&] {
    for (int i = 0; i < 100 && flag.load(std::memory_order_acquire) == 0; ++i) scheduler.point();
    early = flag.load(std::memory_order_acquire) != 0 && data.load(std::memory_order_relaxed) == 0;
  });
  scheduler.run(10'000, [] { return false; });
  return early;
}

[[nodiscard]] uint64_t count_early(std::memory_order order) {
  uint64_t early = 0;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) early += is_early(seed, order) ? 1 : 0;
  return early;
}

}  // namespace
}  // namespace verbena::progress_sim

int main() {
  using verbena::progress_sim::count_early;
  const uint64_t relaxed = count_early(std::memory_order_relaxed);
  const uint64_t released = count_early(std::memory_order_release);
  std::printf("early: relaxed %llu, release %llu\n", static_cast<unsigned long long>(relaxed),
              static_cast<unsigned long long>(released));
  return relaxed != 0 && released == 0 ? 0 : 1;
}
