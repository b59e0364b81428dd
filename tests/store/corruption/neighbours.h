// SPDX-License-Identifier: Apache-2.0
// Writing beside damage, over it and across it: what needs the lost bytes is refused and changes
// nothing, what replaces them heals.
#pragma once

#include <string>

#include "expectation.h"

namespace verbena::store::trial {

// Does all of it around one lost chunk; the truth is what it must be then.
[[nodiscard]] std::string write_beside(Store& store, Truth& truth, RandomSource& random);

}  // namespace verbena::store::trial
