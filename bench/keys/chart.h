// SPDX-License-Identifier: Apache-2.0
// Rows as bars.
#pragma once

#include <string>
#include <vector>

#include "common/report.h"

namespace verbena::bench {

// An SVG of each row's median.
[[nodiscard]] std::string bar_chart(const std::vector<Row>& rows);

}  // namespace verbena::bench
