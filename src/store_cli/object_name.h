// SPDX-License-Identifier: Apache-2.0
// How objects are called on a command line: by name, or by number as `high:low`.
#pragma once

#include <string>
#include <string_view>
#include <variant>

#include "base/result.h"
#include "store/error.h"

namespace verbena::store_cli {

using ObjectName = std::variant<store::ObjectId, std::string>;

// Two numbers with a colon between, each decimal or 0x and hexadecimal, are an id; all else is a
// name, and must be one that an object can have.
[[nodiscard]] Result<ObjectName, std::string> parse_object(std::string_view text);
// The same, for what must be a name.
[[nodiscard]] Result<std::string, std::string> parse_name(std::string_view text);

// For a terminal: what is not text, or would move the cursor, as \xNN.
[[nodiscard]] std::string printable(std::string_view text);

}  // namespace verbena::store_cli
