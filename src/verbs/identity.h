// SPDX-License-Identifier: Apache-2.0
// What programs are told about the device: its name, numbers and limits.
#pragma once

#include <infiniband/verbs.h>

#include "device/limits.h"

namespace verbena::verbs {

// The one device of this process, as in a device list.
[[nodiscard]] ibv_device* the_device();

// What the limits are in the words of verbs; says nothing of what is not there.
void describe(const device::DeviceLimits& limits, ibv_device_attr& attr);

}  // namespace verbena::verbs
