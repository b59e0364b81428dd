// SPDX-License-Identifier: Apache-2.0
#include "store/folder_names.h"

#include <filesystem>

namespace verbena::store {

verbena::Result<std::vector<std::string>, std::error_code> names_in(const std::string& folder) {
  namespace fs = std::filesystem;
  std::vector<std::string> names;
  std::error_code error;
  // Not a range-based loop, whose ++ throws.
  for (fs::directory_iterator entry(folder, error); !error && entry != fs::directory_iterator();
       entry.increment(error)) {
    names.push_back(entry->path().filename().string());
  }
  if (error) return fail(error);
  return names;
}

}  // namespace verbena::store
