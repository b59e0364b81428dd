// SPDX-License-Identifier: Apache-2.0
// What the process is shown at a path: nothing of ours, or something of the tree that the device's
// identity makes. Nothing is kept on any disk: files are opened as sealed memory, directories as
// empty memory whose name says which directory it is.
//
// Any thread; the tree is made anew when it is more than a second old, so that it follows the
// host's addresses. The lock is taken for paths of ours alone.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <sys/stat.h>

#include "identity/tree.h"

namespace verbena::preload {

// The path in our tree that these arguments of an *at() function mean: absolute, without "." and
// ".."; nothing if they mean something that is none of ours. Cheap for what is not.
[[nodiscard]] std::optional<std::string> ours(int directory, const char* path);
// The directory of ours that the descriptor is; nothing if it is none. Leaves errno alone.
[[nodiscard]] std::optional<std::string> directory_of(int fd);

// A copy: the tree may change.
[[nodiscard]] std::optional<identity::TreeNode> look_up(const std::string& path);
[[nodiscard]] std::vector<std::string> names_in(const std::string& directory);

// -1 and errno, as open(2); flags as there.
[[nodiscard]] int open_shown(const std::string& path, int flags);
// 0, or -1 and errno, as stat(2).
[[nodiscard]] int stat_shown(const std::string& path, struct stat& out);
// As access(2).
[[nodiscard]] int access_shown(const std::string& path, int mode);

}  // namespace verbena::preload
