// SPDX-License-Identifier: Apache-2.0
// What the arguments of a program's call mean: something of the tree that we show, or the kernel's.
//
// A program may have one of our directories as its current one. The kernel is then told to go to a
// directory that has been removed and whose name says which of ours it is: that lives on through
// fork and exec, in programs that go round us, too, and goes with the last process in it.
#pragma once

#include <optional>
#include <string>

#include "identity/resolve.h"

namespace verbena::preload {

using identity::Follow;

class Place {
 public:
  // Of somebody else: nothing is different.
  Place() = default;
  Place(bool ours, std::string path) : ours_(ours), path_(std::move(path)) {}

  // Whether it is in our tree: there at path(), without links, or missing.
  explicit operator bool() const { return ours_; }
  [[nodiscard]] const std::string& path() const { return path_; }
  // What the kernel is to be asked for in place of what the program gave. If that differs it is
  // absolute, and a descriptor that goes with it means nothing.
  [[nodiscard]] const char* for_kernel(const char* given) const {
    return ours_ || path_.empty() ? given : path_.c_str();
  }

 private:
  bool ours_ = false;
  std::string path_;
};

// Of these arguments of an *at() function. Cheap for what is none of ours.
[[nodiscard]] Place locate(int directory, const char* path, Follow follow = Follow::kAll);
// The same where an empty path may mean the descriptor itself (AT_EMPTY_PATH) or a link is not
// followed (AT_SYMLINK_NOFOLLOW).
[[nodiscard]] Place locate_with_flags(int directory, const char* path, int flags);

// What of ours the descriptor was opened for. Leaves errno alone.
[[nodiscard]] std::optional<std::string> shown_by(int fd);
// The same, if it is a directory.
[[nodiscard]] std::optional<std::string> directory_of(int fd);

// As chdir(2), into a directory of ours.
[[nodiscard]] int enter(const std::string& directory);
// Which of ours is the current directory.
[[nodiscard]] std::optional<std::string> current_directory();
// The kernel was asked to go elsewhere.
void forget_current_directory();

}  // namespace verbena::preload
