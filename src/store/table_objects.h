// SPDX-License-Identifier: Apache-2.0
// States of objects, written as a table.
#pragma once

#include <vector>

#include "store/object.h"
#include "store/table.h"

namespace verbena::store {

// Each once, in any order. Of one that was removed: that it was, if a table has it.
void write_objects(std::vector<const Object*> objects, TableWriter& to);

}  // namespace verbena::store
