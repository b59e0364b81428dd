// SPDX-License-Identifier: Apache-2.0
// CRCs of the parts of our memory (Local::crc_at), by a pass over the data.
#pragma once

#include "fabric/fabric.h"

namespace verbena::fabric {

[[nodiscard]] bool crcs_are_right(const Local& local);
void store_crcs(const Local& local);

}  // namespace verbena::fabric
