// SPDX-License-Identifier: Apache-2.0
// A number for each value of an enumeration that ends with kCount.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace verbena {

template <typename Counter>
class CounterSet {
 public:
  void add(Counter counter, uint64_t n = 1) { values_[static_cast<size_t>(counter)] += n; }
  [[nodiscard]] uint64_t operator[](Counter counter) const {
    return values_[static_cast<size_t>(counter)];
  }
  [[nodiscard]] uint64_t at(size_t i) const { return values_[i]; }

 private:
  std::array<uint64_t, static_cast<size_t>(Counter::kCount)> values_{};
};

}  // namespace verbena
