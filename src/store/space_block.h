// SPDX-License-Identifier: Apache-2.0
// A block of the medium, as the space has it: what is in it, by chunk.
#pragma once

#include <array>
#include <atomic>
#include <bit>
#include <cstdint>
#include <memory>

#include "store/space.h"

namespace verbena::store {

inline constexpr uint32_t kMaxWords = 2048 / 64;

using Bits = std::array<uint64_t, kMaxWords>;

inline void set(Bits& bits, uint32_t at) { bits[at / 64] |= uint64_t{1} << (at % 64); }
[[nodiscard]] inline bool is_set(const Bits& bits, uint32_t at) {
  return (bits[at / 64] >> (at % 64) & 1) != 0;
}
inline void clear(Bits& bits, uint32_t at) { bits[at / 64] &= ~(uint64_t{1} << (at % 64)); }

[[nodiscard]] inline uint64_t count_of(const Bits& bits) {
  uint64_t sum = 0;
  for (const uint64_t word : bits) sum += static_cast<uint64_t>(std::popcount(word));
  return sum;
}

struct Space::Block {
  medium::Block taken;
  bool log = false;
  bool pending = false;  // in the list
  bool left = false;     // nothing new goes there: not in the ring
  size_t held_at = 0;
  uint32_t free_count = 0;
  Block* next = nullptr;  // ring of those with free chunks
  Block* previous = nullptr;
  Block* next_pending = nullptr;
  Bits free{};
  Bits young{};
  Bits sealed{};
  Bits old{};
  Bits covered{};
  // Of data blocks. Incremented by who has a reference or the mapping's lock; the one who brings
  // it to zero (acq_rel, after all others' looks at the memory) makes the chunk pending.
  std::unique_ptr<std::atomic<uint32_t>[]> references;
};

}  // namespace verbena::store
