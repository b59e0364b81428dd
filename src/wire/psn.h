// SPDX-License-Identifier: Apache-2.0
// Packet sequence numbers: 24 bits, modular. There is no operator<: "before" only means anything
// within half the number space (IBA 9.7.2), so it is spelled as a distance.
#pragma once

#include <cstdint>

namespace verbena::wire {

class Psn {
 public:
  static constexpr uint32_t kMask = 0xffffff;

  constexpr Psn() = default;
  constexpr explicit Psn(uint32_t value) : value_(value & kMask) {}

  [[nodiscard]] constexpr uint32_t value() const { return value_; }
  [[nodiscard]] constexpr Psn next() const { return Psn(value_ + 1); }
  [[nodiscard]] constexpr Psn previous() const { return Psn(value_ - 1); }

  // Signed distance from `from` to `to`, in [-2^23, 2^23): positive when `to` is later.
  [[nodiscard]] friend constexpr int32_t distance(Psn from, Psn to) {
    // Shift the 24-bit difference to the top of the word so that the sign bit is the PSN's own.
    return static_cast<int32_t>((to.value_ - from.value_) << 8) >> 8;
  }
  [[nodiscard]] constexpr bool is_before(Psn other) const { return distance(*this, other) > 0; }
  [[nodiscard]] constexpr bool is_after(Psn other) const { return distance(*this, other) < 0; }

  friend constexpr Psn operator+(Psn psn, uint32_t n) { return Psn(psn.value_ + n); }
  friend constexpr Psn operator-(Psn psn, uint32_t n) { return Psn(psn.value_ - n); }
  friend constexpr bool operator==(Psn, Psn) = default;

 private:
  uint32_t value_ = 0;
};

}  // namespace verbena::wire
