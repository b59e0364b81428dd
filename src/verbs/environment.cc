// SPDX-License-Identifier: Apache-2.0
#include "verbs/environment.h"

#include <cstdlib>
#include <string_view>

namespace verbena::verbs {

bool wants_messages() {
  const char* const value = std::getenv("VERBENA_VERBOSE");
  return value != nullptr && !std::string_view(value).empty() && std::string_view(value) != "0";
}

}  // namespace verbena::verbs
