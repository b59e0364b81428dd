// SPDX-License-Identifier: Apache-2.0
// Reads and writes through the engine, and the same bytes by the limit's way: bytes per second.
#pragma once

#include <cstdint>

#include "engine.h"

namespace verbena::bench {

enum class Direction : uint8_t { kWrite, kRead };

// `bytes` at multiples of `step`, one after the other (large) or here and there (small).
struct Requests {
  Direction direction = Direction::kWrite;
  uint32_t bytes = 0;
  uint32_t step = 0;
  bool scattered = false;
};

[[nodiscard]] double through_engine(store::Store& store, const Requests& requests, uint64_t total,
                                    store::ObjectId object = kObject);
[[nodiscard]] double by_memcpy_and_crc(const Arena& arena, const Requests& requests,
                                       uint64_t total);
// Several threads at once, each with an object of its own.
[[nodiscard]] double with_threads(store::Store& store, const Requests& requests, uint64_t total,
                                  uint32_t threads);

}  // namespace verbena::bench
