// SPDX-License-Identifier: Apache-2.0
// The device's limits, for a person and for a script.
#pragma once

#include <string>

#include "device/limits.h"

namespace verbena::demo {

[[nodiscard]] std::string table_of(const device::DeviceLimits& limits);
// One object, with a number for each name.
[[nodiscard]] std::string json_of(const device::DeviceLimits& limits);

}  // namespace verbena::demo
