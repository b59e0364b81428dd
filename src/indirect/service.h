// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "keys/service.h"

namespace verbena::indirect {

// The device's, if the libibverbs of this process is Verbena's of this build; nullptr otherwise.
[[nodiscard]] keys::Service* service();

}  // namespace verbena::indirect
