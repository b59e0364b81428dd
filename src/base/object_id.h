// SPDX-License-Identifier: Apache-2.0
// The id of an object: 128 bits, chosen by whoever creates it.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

namespace verbena {

struct ObjectId {
  uint64_t high = 0;
  uint64_t low = 0;
  auto operator<=>(const ObjectId&) const = default;
};

// "high:low", decimal.
[[nodiscard]] inline std::string text_of(ObjectId id) {
  return std::to_string(id.high) + ":" + std::to_string(id.low);
}

}  // namespace verbena
