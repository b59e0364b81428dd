// SPDX-License-Identifier: Apache-2.0
// Lines of the standard input, and whether the next one is there already.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"

namespace verbena::store_cli {

class LineInput {
 public:
  // The next line without its end; nothing at the end of the input, or if a signal came. A line may
  // have at most kMaxLine bytes.
  [[nodiscard]] Result<std::optional<std::string>, std::string> next();
  // Whether next() may have to wait for whoever writes the lines.
  [[nodiscard]] bool would_wait() const;

  static constexpr size_t kMaxLine = 1 << 20;

 private:
  std::string buffer_;  // read and not handed out
  size_t at_ = 0;       // in it
  bool end_ = false;
};

}  // namespace verbena::store_cli
