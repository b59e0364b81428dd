// SPDX-License-Identifier: Apache-2.0
// The standard error of somebody else's process, for the few lines that are worth it. Descriptor 2
// may be closed, or by now be something that is no place for words: a line is written only if it is
// still what it was when this was made, and is a terminal, a pipe, a local socket, or a file at its
// end. It is never waited for, and raises no signal.
#pragma once

#include <string_view>

#include <sys/stat.h>

namespace verbena::device {

class StandardError {
 public:
  // Remembers what descriptor 2 is.
  StandardError();
  // The process's, as of the time when the library was loaded.
  [[nodiscard]] static const StandardError& of_process();
  // Whether it was written. `line` ends with a newline.
  bool write(std::string_view line) const;

 private:
  bool known_ = false;
  dev_t device_ = 0;
  ino_t inode_ = 0;
  dev_t special_ = 0;
};

}  // namespace verbena::device
