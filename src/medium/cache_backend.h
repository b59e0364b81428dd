// SPDX-License-Identifier: Apache-2.0
// Keeps released blocks of another backend, mapped, populated and registered, and reuses them
// first. The backend below sees them as held. Their content is undefined, so a crash loses nothing.
#pragma once

#include <cstddef>
#include <memory>

#include "medium/backend.h"

namespace verbena::medium {

// Keeps up to so many blocks.
[[nodiscard]] std::unique_ptr<Backend> make_cache_backend(std::unique_ptr<Backend> below,
                                                          size_t keep);

}  // namespace verbena::medium
