// SPDX-License-Identifier: Apache-2.0
// How much of a test to run: a number in an environment variable. VERBENA_TEST_FABRIC: over which
// fabric, as `verbena serve --fabric` has it (verbs).
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>

#include "fabric/fabric_choice.h"

namespace verbena::serve {

[[nodiscard]] inline uint64_t setting(const char* name, uint64_t otherwise) {
  const char* const value = std::getenv(name);
  return value == nullptr ? otherwise : std::strtoull(value, nullptr, 10);
}

[[nodiscard]] inline fabric::FabricChoice fabric_choice() {
  const char* const value = std::getenv("VERBENA_TEST_FABRIC");
  const auto choice = fabric::parse_fabric(value == nullptr ? "verbs" : value);
  if (!choice) std::abort();
  return *choice;
}

[[nodiscard]] inline fabric::Result<std::unique_ptr<fabric::Fabric>> open_chosen_fabric(
    fabric::VerbsOptions options = {}) {
  options.libraries = VERBENA_LIBRARIES;
  return fabric::open_fabric(fabric_choice(), options);
}

}  // namespace verbena::serve
