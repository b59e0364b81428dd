// SPDX-License-Identifier: Apache-2.0
// What a process sleeps on and others ring: an eventfd, handed to them.
#pragma once

#include "base/unique_fd.h"

namespace verbena::link {

// Not valid: errno says why.
[[nodiscard]] UniqueFd make_bell();
// Whether another process handed out what it should have: to ring anything else might block, or
// write into something.
[[nodiscard]] bool is_bell(int fd);
void ring(int bell);
void silence(int bell);

}  // namespace verbena::link
