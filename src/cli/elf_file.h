// SPDX-License-Identifier: Apache-2.0
// The little of an ELF file that says how its libraries are found. The file is anybody's: whatever
// is wrong in it gives nothing, never a fault.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace verbena::cli {

struct ElfFile {
  bool for_this_machine = false;
  bool dynamic = false;  // asks for a dynamic loader,
  std::string loader;    // this one
  std::vector<std::string>
      rpath;  // DT_RPATH, with $ORIGIN replaced; it goes before LD_LIBRARY_PATH
};

// Nothing if it cannot be read or is no ELF file.
[[nodiscard]] std::optional<ElfFile> read_elf(const std::string& path);

}  // namespace verbena::cli
