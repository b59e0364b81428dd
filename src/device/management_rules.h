// SPDX-License-Identifier: Apache-2.0
// What the link has to know of the connection manager's messages.
#pragma once

#include "link/management.h"

namespace verbena::device {

[[nodiscard]] const link::ManagementRules& management_rules();

}  // namespace verbena::device
