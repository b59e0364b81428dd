// SPDX-License-Identifier: Apache-2.0
// operator new of the whole program, which fails when told to. Link it into one test program alone.
#pragma once

#include <cstdint>

namespace verbena::store::trial {

// Of this thread's allocations the n-th from now on fails (1: the next), and with `all_after` all
// behind it, too.
void fail_allocation(uint64_t n, bool all_after);
// From now on none fails. Whether one did.
bool stop_failing();

}  // namespace verbena::store::trial
