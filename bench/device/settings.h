// SPDX-License-Identifier: Apache-2.0
// What the user asked for.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

namespace verbena::bench {

struct Settings {
  uint32_t rounds = 5;
  double scale = 1;  // of the work in each measurement
  std::vector<std::string> only;
  std::string match;
  std::string json;
  bool alone = false;

  [[nodiscard]] bool wants(const std::string& group) const {
    return only.empty() || std::ranges::find(only, group) != only.end();
  }
  [[nodiscard]] uint64_t bytes(uint64_t of) const {
    return static_cast<uint64_t>(static_cast<double>(of) * scale);
  }
  [[nodiscard]] uint32_t count(uint32_t of) const {
    return static_cast<uint32_t>(static_cast<double>(of) * scale);
  }
};

}  // namespace verbena::bench
