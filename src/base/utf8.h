// SPDX-License-Identifier: Apache-2.0
// UTF-8, character by character, and which of them a terminal does not show but act on.
#pragma once

#include <cstdint>
#include <string_view>

namespace verbena {

// The first character of `text`, which is not empty, taken off it; 0 if it is not well-formed
// (Unicode, table 3-7), and then how much is taken off is not defined.
[[nodiscard]] uint32_t take_character(std::string_view& text);

// Also those that end a line or change the direction of what follows: a terminal would show other
// names, or the same name, in another order.
[[nodiscard]] bool is_control_character(uint32_t character);
// Those that names may have, for some languages need them, and that do the same to a lesser degree.
[[nodiscard]] bool is_direction_mark(uint32_t character);

}  // namespace verbena
