// SPDX-License-Identifier: Apache-2.0
// How bytes are reached that do not simply lie at a key's address.
//
//   Backing    what a Layout that is not plain memory goes through
//     Accessor   on-demand memory: its pages may not exist
//     IndirectKey (indirect_key.h)   lists, strides and signatures over other keys
#pragma once

#include <cstdint>
#include <span>

#include "base/result.h"
#include "memory/access.h"
#include "memory/pieces.h"

namespace verbena::memory {

class Accessor;

// Eight aligned bytes, side by side.
struct Word {
  uint8_t* at = nullptr;
  Accessor* accessor = nullptr;  // nullptr: touch the memory directly
};

// `at` is an address for on-demand memory, an offset into the key otherwise; the ranges lie inside:
// the check was made.
class Backing {
 public:
  virtual ~Backing() = default;
  // Points `out` at the bytes, or stages them where they cannot be pointed at.
  [[nodiscard]] virtual Fault gather(uint64_t at, uint64_t n, Pieces& out) = 0;
  // `last`: as in move.h, for the bytes that end the range.
  [[nodiscard]] virtual Fault scatter(uint64_t at, std::span<const uint8_t> bytes, bool last) = 0;
  // As much of the range, from its start, as lies side by side and can be touched by the CPU at
  // once; empty when that cannot be, or may not.
  [[nodiscard]] virtual std::span<uint8_t> plain(uint64_t at, uint64_t n, bool write) = 0;
  [[nodiscard]] virtual Result<Word, Fault> word(uint64_t at) = 0;
};

// The pages of an on-demand region may not exist, so its owner (src/device) supplies an accessor
// for which a bad address is a Fault and never a signal.
class Accessor : public Backing {
 public:
  [[nodiscard]] virtual Fault read(const uint8_t* from, std::span<uint8_t> to) = 0;
  [[nodiscard]] virtual Fault write(uint8_t* to, std::span<const uint8_t> from) = 0;

  [[nodiscard]] Fault gather(uint64_t at, uint64_t n, Pieces& out) final;
  [[nodiscard]] Fault scatter(uint64_t at, std::span<const uint8_t> bytes, bool last) final;
  [[nodiscard]] std::span<uint8_t> plain(uint64_t at, uint64_t n, bool write) final;
  [[nodiscard]] Result<Word, Fault> word(uint64_t at) final;
};

}  // namespace verbena::memory
