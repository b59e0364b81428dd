// SPDX-License-Identifier: Apache-2.0
// Where the libraries of the built-in device are: beside this library, or in verbena/ there.
#pragma once

#include <string>

#include "base/result.h"

namespace verbena::c_client {

[[nodiscard]] Result<std::string, std::string> device_libraries();

}  // namespace verbena::c_client
