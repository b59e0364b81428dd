// SPDX-License-Identifier: Apache-2.0
// What an object may be called: UTF-8 that a terminal can show.
#include "base/utf8.h"
#include "store/record.h"

namespace verbena::store {

bool good_name(std::string_view name) {
  if (name.size() > kMaxNameBytes) return false;
  while (!name.empty()) {
    if (is_control_character(take_character(name))) return false;
  }
  return true;
}

}  // namespace verbena::store
