// SPDX-License-Identifier: Apache-2.0
#include "cli/installation.h"

#include <filesystem>
#include <string_view>

namespace verbena::cli {

namespace fs = std::filesystem;

Result<std::string, std::string> own_directory() {
  std::error_code error;
  const fs::path self = fs::read_symlink("/proc/self/exe", error);
  if (error) return fail("cannot read /proc/self/exe: " + error.message());
  return (self.parent_path() / ".." / VERBENA_LIBDIR).lexically_normal().string();
}

Result<std::string, std::string> library_directory() {
  auto directory = own_directory();
  if (!directory) return directory;
  for (const std::string_view name : {kVerbsLibrary, kPathsLibrary}) {
    std::error_code error;
    const fs::path library = fs::path(*directory) / name;
    if (!fs::exists(library, error)) {
      return fail(library.string() +
                  " is missing. The libraries must be in " VERBENA_LIBDIR
                  " next to the bin directory of this command; build or install Verbena again.");
    }
  }
  return directory;
}

}  // namespace verbena::cli
