// SPDX-License-Identifier: Apache-2.0
// For tests of the directory tier: opens one, and looks at its files as other programs do.
#pragma once

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>

#include "backend/directory_tier.h"
#include "backend/tier_testing.h"

namespace verbena::backend {

inline std::unique_ptr<DirectoryTier> open_tier(const std::string& path,
                                                Files& files = system_files()) {
  auto tier = DirectoryTier::open(path, files);
  EXPECT_TRUE(tier.has_value()) << tier.error().what;
  return tier ? std::move(*tier) : nullptr;
}

inline Bytes file_bytes(const std::string& path) {
  Bytes bytes(std::filesystem::file_size(path));
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  EXPECT_TRUE(file.good()) << path;
  return bytes;
}

inline void write_file(const std::string& path, const Bytes& bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()),
             static_cast<std::streamsize>(bytes.size()));
  EXPECT_TRUE(file.good()) << path;
}

inline struct stat file_status(const std::string& path) {
  struct stat status{};
  EXPECT_EQ(lstat(path.c_str(), &status), 0) << path;
  return status;
}

// Turns over one bit without a trace in the file's time of modification.
inline void spoil_file(const std::string& path, uint64_t offset) {
  const struct stat before = file_status(path);
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(static_cast<std::streamoff>(offset));
  const int byte = file.get();
  file.seekp(static_cast<std::streamoff>(offset));
  file.put(static_cast<char>(byte ^ 4));
  file.close();
  ASSERT_TRUE(file.good());
  const timespec times[2] = {before.st_atim, before.st_mtim};
  ASSERT_EQ(utimensat(AT_FDCWD, path.c_str(), times, 0), 0);
}

// All ordinary files below a folder of .verbena.
inline std::vector<std::string> files_below(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) paths.push_back(entry.path());
  }
  return paths;
}

}  // namespace verbena::backend
