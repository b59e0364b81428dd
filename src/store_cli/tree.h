// SPDX-License-Identifier: Apache-2.0
// Directories of files as names of objects, and back: put -r, get -r, sync.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "base/unique_fd.h"
#include "store_cli/report.h"

namespace verbena::store_cli {

struct TreeFile {
  std::string path;      // to open it
  std::string relative;  // below the directory, with '/' between
  uint64_t size = 0;
};
struct Tree {
  std::vector<TreeFile> files;        // regular files, sorted by `relative`
  std::vector<std::string> skipped;   // what is neither file nor directory: links are not followed
  std::vector<std::string> problems;  // directories that cannot be read, a sentence each
};
[[nodiscard]] Result<Tree, std::string> list_tree(const std::string& folder);

// Those that were skipped as remarks, problems as errors.
void tell_problems(const Tree& tree, Report& report);

// "photos" and "photos/" are the same; "" is all objects.
[[nodiscard]] std::string as_prefix(std::string_view prefix);

// Whether a name can be that of a file below a directory: parts of 1 to 255 bytes, none "." or
// "..", no '/' at the beginning or the end. Otherwise why not.
[[nodiscard]] Result<void, std::string> check_relative(std::string_view name);

// A directory below which files are made, and nowhere else: links in it are not followed.
class TargetTree {
 public:
  // Made if it is missing.
  [[nodiscard]] static Result<TargetTree, std::string> open(const std::string& folder);
  // The directory that a file of this name, which check_relative() takes, is to be in; made if it
  // is missing.
  [[nodiscard]] Result<UniqueFd, std::string> folder_of(std::string_view relative) const;
  [[nodiscard]] std::string path_of(std::string_view relative) const;

 private:
  std::string shown_;
  UniqueFd folder_;
};

}  // namespace verbena::store_cli
