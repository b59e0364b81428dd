// SPDX-License-Identifier: Apache-2.0
// The live run's result, for a person and for a script.
#pragma once

#include <string>

#include "demo/live.h"

namespace verbena::demo {

[[nodiscard]] std::string table_of(const LiveOptions& options, const LiveResult& result,
                                   bool colors);
[[nodiscard]] std::string json_of(const LiveOptions& options, const LiveResult& result);

}  // namespace verbena::demo
