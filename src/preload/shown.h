// SPDX-License-Identifier: Apache-2.0
// The tree that the process is shown, and answers from it. Nothing is kept on any disk: files are
// opened as sealed memory, directories as empty memory; the memory's name says what it is. The
// counters' memory alone is written anew.
//
// Any thread; the tree is made anew when it is more than a second old, so that it follows the
// host's addresses. The lock is taken for paths of ours alone.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include <sys/stat.h>

#include "identity/resolve.h"
#include "identity/tree.h"

namespace verbena::preload {

[[nodiscard]] identity::Resolved resolve_shown(const std::string& path, identity::Follow follow);
// A copy: the tree may change.
[[nodiscard]] std::optional<identity::TreeNode> look_up(const std::string& path);
[[nodiscard]] std::vector<std::string> names_in(const std::string& directory);

// Until something was, no descriptor need be looked at.
[[nodiscard]] bool anything_was_opened();
// -1 and errno, as open(2); flags as there.
[[nodiscard]] int open_shown(const std::string& path, int flags);
// Whether the descriptor was once opened for a counter: one load.
[[nodiscard]] bool may_be_counter(int fd);
// The program is about to read it from the start: if it is a counter's, it has its number of now.
// Leaves errno alone.
void read_anew(int fd);
// 0, or -1 and errno, as lstat(2).
[[nodiscard]] int stat_shown(const std::string& path, struct stat& out);
// As access(2).
[[nodiscard]] int access_shown(const std::string& path, int mode);

}  // namespace verbena::preload
