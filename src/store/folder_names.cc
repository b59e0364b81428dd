// SPDX-License-Identifier: Apache-2.0
#include "store/folder_names.h"

#include <filesystem>
#include <system_error>

#include <fmt/format.h>

namespace verbena::store {

Result<std::vector<std::string>> names_in(const std::string& folder) {
  namespace fs = std::filesystem;
  std::vector<std::string> names;
  std::error_code error;
  // Not a range-based loop, whose ++ throws.
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  const bool none =
      error == std::errc::no_such_file_or_directory || error == std::errc::not_a_directory;
  if (error && !none) {
    return fail(Error{
        Code::kIo, fmt::format("directory {} cannot be read: {}", folder, error.message()), {}});
  }
  return names;
}

}  // namespace verbena::store
