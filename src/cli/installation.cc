// SPDX-License-Identifier: Apache-2.0
#include "cli/installation.h"

#include <filesystem>
#include <string_view>

namespace verbena::cli {

namespace fs = std::filesystem;

Result<std::string, std::string> library_directory() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error) return fail("/proc/self/exe cannot be read: " + error.message());
  const fs::path directory = (self.parent_path() / "../lib/verbena").lexically_normal();
  for (const std::string_view name : {kVerbsLibrary, kPathsLibrary}) {
    if (!fs::exists(directory / name, error)) {
      return fail((directory / name).string() +
                  " is missing. The libraries belong into lib/verbena beside the bin folder of "
                  "this command; build or install Verbena again.");
    }
  }
  return directory.string();
}

}  // namespace verbena::cli
