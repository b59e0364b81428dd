// SPDX-License-Identifier: Apache-2.0
#include "base/utf8.h"

#include <cstddef>

namespace verbena {

uint32_t take_character(std::string_view& text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  size_t length = 1;
  uint32_t character = lead;
  uint32_t least = 0;
  if (lead >= 0x80) {
    if (lead >= 0xf0 && lead <= 0xf4) {
      length = 4, character = lead & 0x07u, least = 0x10000;
    } else if (lead >= 0xe0 && lead < 0xf0) {
      length = 3, character = lead & 0x0fu, least = 0x800;
    } else if (lead >= 0xc2 && lead < 0xe0) {
      length = 2, character = lead & 0x1fu, least = 0x80;
    } else {
      return 0;
    }
  }
  if (text.size() < length) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return 0;
    character = character << 6 | (byte(i) & 0x3fu);
  }
  text.remove_prefix(length);
  const bool surrogate = character >= 0xd800 && character < 0xe000;
  return character < least || surrogate || character > 0x10ffff ? 0 : character;
}

bool is_control_character(uint32_t character) {
  return character < 0x20 || (character >= 0x7f && character < 0xa0) ||
         (character >= 0x2028 && character <= 0x202e) ||
         (character >= 0x2066 && character <= 0x2069);
}

bool is_direction_mark(uint32_t character) {
  return character == 0x061c || character == 0x200e || character == 0x200f;
}

}  // namespace verbena
