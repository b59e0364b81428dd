// SPDX-License-Identifier: Apache-2.0
// Copies between packets and memory that the host's program may read or write at this very moment:
// the only place where such bytes are touched (but for the atomics in remote.cc), and so the only
// place where the rule of visibility lives.
//
// The rule: programs learn of a message's arrival by spinning on its last byte (ib_write_lat), or
// on a flag word that ends it. So the bytes that end a message are stored at once, after all
// others, with release order; pairs with the program's acquire load (or its volatile load and
// barrier).
//
//            | all other bytes, in any order          | final unit: 8, 4, 2 or 1 bytes |
//                                                       ^ naturally aligned, one store
//
// A unit does not reach back over the packet or list entry that ends the message: what holds always
// is the last byte.
//
// The packet's side of a copy never overlaps the program's memory. Where a program has one of its
// keys copied to another, the two may: its bytes are then any that were there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace verbena::memory {

// The largest of 8, 4, 2, 1 that ends [to, to + n), fits it and is naturally aligned. n > 0.
[[nodiscard]] inline size_t final_unit(const uint8_t* to, size_t n) {
  const uintptr_t end = reinterpret_cast<uintptr_t>(to) + n;
  if (n >= 8 && end % 8 == 0) return 8;
  if (n >= 4 && end % 4 == 0) return 4;
  return n >= 2 && end % 2 == 0 ? 2 : 1;
}

// Stores `from` at `to`; when `last`, by the rule above. An aligned word of 2, 4 or 8 bytes is
// always one store: it is never seen half written.
void store(uint8_t* to, std::span<const uint8_t> from, bool last);

// Fills `to` with the bytes at `from`, which may change meanwhile: each is one that was there.
void load(const uint8_t* from, std::span<uint8_t> to);

}  // namespace verbena::memory
