// SPDX-License-Identifier: Apache-2.0
#include "demo/show_limits.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace verbena::demo {

std::string table_of(const device::DeviceLimits& limits) {
  constexpr size_t kNameWidth = 16;
  constexpr size_t kValueWidth = 16;
  std::string text;
  for (const device::LimitRow& row : device::rows_of(limits)) {
    const std::string value = std::to_string(row.value);
    text.append(row.name).append(kNameWidth - std::min(kNameWidth, row.name.size()), ' ');
    text.append(kValueWidth - std::min(kValueWidth, value.size()), ' ').append(value) += '\n';
  }
  return text;
}

std::string json_of(const device::DeviceLimits& limits) {
  nlohmann::ordered_json json;
  for (const device::LimitRow& row : device::rows_of(limits)) {
    json[std::string(row.name)] = row.value;
  }
  return json.dump(2) + "\n";
}

}  // namespace verbena::demo
