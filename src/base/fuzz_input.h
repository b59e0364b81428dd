// SPDX-License-Identifier: Apache-2.0
// What a fuzzer reads its decisions from: numbers, the highest byte first; zeros when it is used
// up.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

namespace verbena {

class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size) : rest_(data, size) {}
  [[nodiscard]] bool empty() const { return rest_.empty(); }

  uint64_t take(size_t bytes) {
    uint64_t value = 0;
    for (; bytes > 0; --bytes) {
      value = value << 8 | (rest_.empty() ? 0 : rest_[0]);
      if (!rest_.empty()) rest_ = rest_.subspan(1);
    }
    return value;
  }
  uint8_t u8() { return static_cast<uint8_t>(take(1)); }
  uint16_t u16() { return static_cast<uint16_t>(take(2)); }
  uint32_t u32() { return static_cast<uint32_t>(take(4)); }
  // Mostly small, now and then anything.
  uint32_t number() {
    const uint8_t kind = u8();
    return kind >= 0xf8 ? u32() : kind;
  }
  // As many as there are, up to n.
  std::span<const uint8_t> bytes(size_t n) {
    const auto taken = rest_.first(std::min(n, rest_.size()));
    rest_ = rest_.subspan(taken.size());
    return taken;
  }

 private:
  std::span<const uint8_t> rest_;
};

}  // namespace verbena
