// SPDX-License-Identifier: Apache-2.0
// How the drop-in libraries define the entry points of rdma-core's headers.
#pragma once

#include <cerrno>

#define VERBENA_EXPORT extern "C" __attribute__((visibility("default")))

namespace verbena {

// The answer of a call that gives an error number. errno says it as well: elsewhere a failed system
// call is behind it, and programs print errno.
[[nodiscard]] inline int with_errno(int error) {
  if (error != 0) errno = error;
  return error;
}

}  // namespace verbena
