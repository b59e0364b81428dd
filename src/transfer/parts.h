// SPDX-License-Identifier: Apache-2.0
// Files that are not complete, beside the place that they will have:
//
//   .verbena-HASH.part     of a file in chunks, by what identifies it: another attempt finds it
//   .verbena-TAG-N.part    any other; TAG is random for each process
//
// Whoever writes to one has it locked (flock), so one that nobody has locked is left over from a
// process that was killed. Process numbers would not do: those of another container mean nothing.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include <sys/stat.h>
#include <sys/types.h>

#include "base/unique_fd.h"
#include "transfer/records.h"

namespace verbena::transfer {

// The same for the same file, so that a second attempt finds what the first has left.
[[nodiscard]] std::string resumable_part_name(const std::string& name, uint64_t size,
                                              const Attributes& attributes);
// Locks it: whether it is an incomplete file that nobody else has, and that is still under this
// name. Who had it a moment ago may have completed it, and then it has its own name.
[[nodiscard]] bool lock_part(int fd, const UniqueFd& folder, const std::string& name,
                             struct stat& status);

// Removes one that nobody has, and that is of no use any more.
void remove_part(const UniqueFd& folder, const std::string& name);

struct NewPart {
  UniqueFd fd;  // locked; not valid: errno says why
  std::string name;
  mode_t mode = 0;  // as the process's umask leaves it
};
// Of the second kind.
[[nodiscard]] NewPart make_part(const UniqueFd& folder, mode_t mode);

// Removes what is left over in the folder and in those below it: of the first kind if it was not
// written to for `keep_seconds`. Ends early if `stop` becomes true. How many were removed.
size_t remove_stale_parts(const UniqueFd& folder, int64_t keep_seconds,
                          const std::atomic<bool>& stop);

}  // namespace verbena::transfer
