// SPDX-License-Identifier: Apache-2.0
// The compared part of the live run: an operation's messages with random data, which both ends know
// from one seed. Each end compares what arrives at it to the last byte, and that the bytes around
// it are as they were.
#pragma once

#include <cstdint>
#include <string>

#include "demo/end.h"

namespace verbena::demo {

struct Verdict {
  uint32_t wrong = 0;  // messages that are not as they should be
  std::string first;   // of the first, what
};

void verify_as_target(End& end, const Operation& operation, uint64_t seed);
// Gives what both ends found.
[[nodiscard]] Verdict verify_as_initiator(End& end, const Operation& operation, uint64_t seed);

}  // namespace verbena::demo
