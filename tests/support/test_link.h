// SPDX-License-Identifier: Apache-2.0
// Which link the devices of a test use: the same tests run over each. See BOTH_LINKS in
// cmake/VerbenaLibrary.cmake.
#pragma once

#include <cstdlib>

#include "base/check.h"
#include "link/link_kind.h"

namespace verbena::testing {

[[nodiscard]] inline link::LinkKind test_link() {
  const char* const name = std::getenv("VERBENA_TEST_LINK");
  if (name == nullptr) return link::LinkKind::kAuto;
  const auto kind = link::link_named(name);
  VERBENA_CHECK(kind);
  return *kind;
}

}  // namespace verbena::testing
