// SPDX-License-Identifier: Apache-2.0
// What this library is made of: the device's own interface for keys.
#pragma once

#include <cerrno>
#include <cstddef>
#include <new>

#include "keys/service.h"

// The one way from here into libibverbs.so.1 that is not public.
extern "C" verbena::keys::Service* verbena_key_service();

namespace verbena::mlx5 {

[[nodiscard]] inline keys::Service& service() { return *verbena_key_service(); }

// For calls that give a pointer.
[[nodiscard]] inline std::nullptr_t none(int error) {
  errno = error;
  return nullptr;
}

}  // namespace verbena::mlx5
