// SPDX-License-Identifier: Apache-2.0
// Names of files as they travel: relative, with '/', and never out of the folder they are for.
#pragma once

#include <string>
#include <string_view>

namespace verbena::transfer {

inline constexpr size_t kMaxPathBytes = 4000;
inline constexpr size_t kMaxPartBytes = 255;  // between two '/'

// What is wrong with it, as the end of a sentence that begins with the name; nullptr: nothing.
[[nodiscard]] const char* wrong_with_path(std::string_view path);

// For people, as UTF-8: control characters and what is not UTF-8 as '?', and not too long.
[[nodiscard]] std::string shown(std::string_view path);

}  // namespace verbena::transfer
