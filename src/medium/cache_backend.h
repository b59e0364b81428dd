// SPDX-License-Identifier: Apache-2.0
// Keeps released blocks of another backend, mapped, faulted in and registered, and hands them out
// again first. To the one below they are held; what they contain means nothing to anybody, so a
// crash with blocks in here loses nothing.
#pragma once

#include <cstddef>
#include <memory>

#include "medium/backend.h"

namespace verbena::medium {

// Keeps up to so many blocks.
[[nodiscard]] std::unique_ptr<Backend> make_cache_backend(std::unique_ptr<Backend> below,
                                                          size_t keep);

}  // namespace verbena::medium
