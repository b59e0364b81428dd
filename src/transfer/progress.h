// SPDX-License-Identifier: Apache-2.0
// How far a transfer is, for people.
#pragma once

#include <cstdint>
#include <string_view>

namespace verbena::transfer {

// A file in chunks that is under way.
struct FileProgress {
  std::string_view path{};
  uint64_t done_bytes = 0;
  uint64_t all_bytes = 0;
};

struct Progress {
  uint64_t done_bytes = 0;  // in all
  FileProgress file{};      // the one that was begun first; without a path: none
};

}  // namespace verbena::transfer
