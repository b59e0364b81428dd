// SPDX-License-Identifier: Apache-2.0
// Where our libraries are: beside the command, in a build tree and in an installed one alike.
#pragma once

#include <string>

#include "base/result.h"

namespace verbena::cli {

inline constexpr const char* kVerbsLibrary = "libibverbs.so.1";
inline constexpr const char* kPathsLibrary = "libverbena-paths.so";
inline constexpr const char* kRsocketsLibrary = "librspreload.so";

// bin/verbena's ../lib/verbena.
[[nodiscard]] Result<std::string, std::string> own_directory();
// The same, if what programs need is there; or what is missing.
[[nodiscard]] Result<std::string, std::string> library_directory();

}  // namespace verbena::cli
