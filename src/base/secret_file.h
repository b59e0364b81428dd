// SPDX-License-Identifier: Apache-2.0
// A secret that two ends share, in a file of its own.
#pragma once

#include <string>

#include "base/result.h"

namespace verbena {

struct SecretFile {
  std::string secret;
  // Others than its owner may read it.
  bool exposed = false;
};

// All bytes of the file, without one newline at the end: 1 to 4096. An error is a sentence that
// does not show them.
[[nodiscard]] Result<SecretFile, std::string> read_secret(const std::string& path);

}  // namespace verbena
