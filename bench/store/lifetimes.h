// SPDX-License-Identifier: Apache-2.0
// What a store costs as a whole: opened after its process was killed, verified, cloned; in seconds.
#pragma once

#include <cstdint>
#include <string>

#include "engine.h"

namespace verbena::bench {

// A store of so many bytes, written `piece` bytes at a time by a process that is then killed.
void make_crashed_store(const std::string& folder, uint64_t bytes, uint32_t piece);

struct Opened {
  double seconds = 0;
  uint64_t mappings = 0;
  uint64_t verified = 0;  // chunks of data that were not known to be durable
};
[[nodiscard]] Opened open_store(const std::string& folder);
[[nodiscard]] double scrub_store(const std::string& folder);
// All the files of the store, one after the other: past the page cache or from it.
[[nodiscard]] double read_files(const std::string& folder, bool past_cache);

// A checkpoint of a store with so many mappings, most of them of clones.
[[nodiscard]] double checkpoint_store(const std::string& folder, uint64_t mappings);
// Beside which somebody writes one chunk after the other: the longest that one of these takes.
// tended: as a server does it.
[[nodiscard]] double longest_write_beside_checkpoint(const std::string& folder, uint64_t mappings,
                                                     bool tended);
// So many bytes into a new file, until they are on the disk.
[[nodiscard]] double write_file(const std::string& path, uint64_t bytes);

// An object of so many bytes, cloned and copied.
struct Cloned {
  double clone = 0;
  double copy = 0;
};
[[nodiscard]] Cloned clone_and_copy(uint64_t bytes);

}  // namespace verbena::bench
