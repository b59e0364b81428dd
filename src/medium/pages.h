// SPDX-License-Identifier: Apache-2.0
// The alignment of memory and files.
#pragma once

#include <cstddef>

namespace verbena::medium {

inline constexpr size_t kPage = 4096;  // as files are read and written past the page cache
inline constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace verbena::medium
