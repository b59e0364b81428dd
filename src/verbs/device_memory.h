// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>

#include "verbs/objects.h"

namespace verbena::verbs {

// What all device memory of a process adds up to at most.
inline constexpr size_t kDeviceMemoryBytes = size_t{1} << 20;

// One more ibv_dm for the same memory.
[[nodiscard]] ibv_dm* show_memory(ibv_context* context, std::shared_ptr<DeviceMemory> memory,
                                  uint32_t handle);

}  // namespace verbena::verbs
