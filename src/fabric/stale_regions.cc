// SPDX-License-Identifier: Apache-2.0
#include "fabric/stale_regions.h"

#include <cerrno>
#include <charconv>
#include <csignal>
#include <filesystem>
#include <string_view>

#include <sys/stat.h>
#include <unistd.h>

namespace verbena::fabric {

bool is_region_name(std::string_view address) {
  constexpr size_t kMost = 128;
  const size_t at = address.find(kRegionPrefix);
  if (at == std::string_view::npos || address.size() > kMost || address.back() != 0) return false;
  const std::string_view name = address.substr(at, address.size() - at - 1);
  // Behind the scheme, and no path.
  return (at == 0 || address.substr(0, at).ends_with("://")) &&
         name.find('/') == std::string_view::npos && name.find('\0') == std::string_view::npos;
}

void remove_stale_regions(const std::string& directory) {
  std::error_code failed;
  std::filesystem::directory_iterator files(directory, failed);
  if (failed) return;
  for (const std::filesystem::directory_iterator end; files != end; files.increment(failed)) {
    if (failed) return;
    const std::string path = files->path().string();
    const std::string name = files->path().filename().string();
    const size_t at = name.find(kRegionPrefix);
    if (at == std::string::npos) continue;
    const char* const begin = name.data() + at + std::string_view(kRegionPrefix).size();
    pid_t process = 0;
    const auto [after, error] = std::from_chars(begin, name.data() + name.size(), process);
    if (error != std::errc() || after == name.data() + name.size() || *after != '-') continue;
    struct stat file{};
    if (lstat(path.c_str(), &file) != 0 || file.st_uid != geteuid()) continue;
    if (kill(process, 0) == 0 || errno != ESRCH) continue;
    unlink(path.c_str());
  }
}

void remove_region_name(const std::string& node, const std::string& directory) {
  unlink((directory + "/" + node).c_str());
}

}  // namespace verbena::fabric
