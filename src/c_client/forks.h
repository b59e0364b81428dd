// SPDX-License-Identifier: Apache-2.0
// A child of fork() has a copy of its parent's clients: their memory and their connections, but not
// the threads that drive them, and locks as they were. It must leave them alone, or it would wait
// for ever, or end the session that its parent goes on using.
#pragma once

#include <cstdint>

namespace verbena::c_client {

// How many forks there are between the process that loaded the library and this one.
[[nodiscard]] uint32_t forks();

}  // namespace verbena::c_client
