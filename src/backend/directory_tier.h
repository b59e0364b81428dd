// SPDX-License-Identifier: Apache-2.0
// A tier that is a directory: each object is an ordinary file, with its checksums beside it in
// .verbena/ (docs/backend.md). For any number of threads of one process, which has the directory
// for itself as far as this program goes; other programs may read files at any time, and change
// them with the consequence that the object is another version then.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "backend/files.h"
#include "backend/tier.h"

namespace verbena::backend {

struct DirectoryCounters {
  std::atomic<uint64_t> adopted = 0;     // states of files that another program has written
  std::atomic<uint64_t> skipped = 0;     // by list(): links, devices, names that no object can have
  std::atomic<uint64_t> removed = 0;     // left-over files, when it was opened
  std::atomic<uint64_t> unreadable = 0;  // sums that nobody can say whose they are, likewise
};

class DirectoryTier : public Tier {
 public:
  // The directory must exist. kInUse: another process has it. `files` must outlive the tier.
  [[nodiscard]] static Result<std::unique_ptr<DirectoryTier>> open(const std::string& path,
                                                                   Files& files = system_files());
  [[nodiscard]] virtual const DirectoryCounters& counters() const = 0;
};

}  // namespace verbena::backend
