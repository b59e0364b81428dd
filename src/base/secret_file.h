// SPDX-License-Identifier: Apache-2.0
// A secret that two ends share, in a file of its own.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace verbena {

struct SecretFile {
  std::string secret;
  // Others than its owner may read it.
  bool exposed = false;
};

enum class SecretSource : uint8_t {
  kAny,
  // Not what can be read only once, as a pipe or a shell's <(...): others read it as well, and who
  // reads it must not wait for a writer.
  kFile,
};

// All bytes of the file, without one newline at the end: 1 to 4096. An error is a sentence that
// does not show them.
[[nodiscard]] Result<SecretFile, std::string> read_secret(const std::string& path,
                                                          SecretSource source = SecretSource::kAny);

}  // namespace verbena
