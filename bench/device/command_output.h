// SPDX-License-Identifier: Apache-2.0
// What a shell command prints.
#pragma once

#include <cstdio>
#include <string>

namespace verbena::bench {

[[nodiscard]] inline std::string command_output(const std::string& command) {
  std::string text;
  FILE* const pipe = ::popen(command.c_str(), "r");
  if (pipe == nullptr) return text;
  char chunk[4096];
  for (size_t got = 0; (got = std::fread(chunk, 1, sizeof chunk, pipe)) > 0;) {
    text.append(chunk, got);
  }
  (void)::pclose(pipe);
  return text;
}

}  // namespace verbena::bench
