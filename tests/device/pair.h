// SPDX-License-Identifier: Apache-2.0
// Two ends and the two halves of a test's script. The far one is a process forked before this one
// has a device or threads; or, with PairOptions::one_process, a thread with a context of its own.
// What goes wrong in either, and a Broken that either throws, is a failure of the test.
#pragma once

#include <functional>

#include "end.h"

namespace verbena::device::testing {

using Script = std::function<void(End&)>;

void run_pair(const PairOptions& setup, const Script& near, const Script& far);

// The far process's id, for the near half of a script (two processes only).
[[nodiscard]] int far_process();

}  // namespace verbena::device::testing
