// SPDX-License-Identifier: Apache-2.0
// A bit for each of the PSNs that lie within size() of each other, as a ring. Who uses it knows
// which those are: bits of others are the bits of the ones they share a place with.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "wire/psn.h"

namespace verbena::transport {

class PsnBits {
 public:
  // A power of two of them, 64 at least; none is set.
  explicit PsnBits(size_t size) : words_(size / kWordBits) {
    VERBENA_CHECK(std::has_single_bit(size) && size >= kWordBits);
  }

  [[nodiscard]] size_t size() const { return words_.size() * kWordBits; }
  [[nodiscard]] bool test(wire::Psn psn) const { return (word_of(psn) & bit_of(psn)) != 0; }
  void set(wire::Psn psn) { word_of(psn) |= bit_of(psn); }
  void reset(wire::Psn psn) { word_of(psn) &= ~bit_of(psn); }

  // The first of [from, end) that is set; the end when none is.
  [[nodiscard]] wire::Psn next_set(wire::Psn from, wire::Psn end) const {
    return next<0>(from, end);
  }
  // The first that is not.
  [[nodiscard]] wire::Psn next_reset(wire::Psn from, wire::Psn end) const {
    return next<~uint64_t{0}>(from, end);
  }
  // The bits of `from` and of those behind it before `end`, at most 32; the first one's is bit 31.
  [[nodiscard]] uint32_t word_at(wire::Psn from, wire::Psn end) const {
    const int32_t count = distance(from, end);
    if (count <= 0) return 0;
    const uint32_t skip = from.value() % kWordBits;
    uint64_t bits = word_of(from) << skip;
    if (skip > kWordBits - 32) bits |= word_of(from + 32) >> (kWordBits - skip);
    const auto found = static_cast<uint32_t>(bits >> 32);
    return count >= 32 ? found : found & ~(~uint32_t{0} >> count);
  }

 private:
  static constexpr uint32_t kWordBits = 64;

  // From the highest bit down, as bitmaps on the wire are written.
  [[nodiscard]] static uint64_t bit_of(wire::Psn psn) {
    return uint64_t{1} << (kWordBits - 1 - psn.value() % kWordBits);
  }
  [[nodiscard]] size_t place_of(wire::Psn psn) const {
    return psn.value() / kWordBits & (words_.size() - 1);
  }
  [[nodiscard]] uint64_t& word_of(wire::Psn psn) { return words_[place_of(psn)]; }
  [[nodiscard]] uint64_t word_of(wire::Psn psn) const { return words_[place_of(psn)]; }

  // The first bit that differs from those of `same`.
  template <uint64_t same>
  [[nodiscard]] wire::Psn next(wire::Psn from, wire::Psn end) const {
    for (int32_t left = distance(from, end); left > 0;) {
      const uint32_t skip = from.value() % kWordBits;
      const uint64_t rest = (word_of(from) ^ same) << skip;
      const auto step = static_cast<int32_t>(rest == 0 ? kWordBits - skip : std::countl_zero(rest));
      if (step >= left) break;
      from = from + static_cast<uint32_t>(step);
      left -= step;
      if (rest != 0) return from;
    }
    return end;
  }

  std::vector<uint64_t> words_;
};

}  // namespace verbena::transport
