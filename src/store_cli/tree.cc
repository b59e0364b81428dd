// SPDX-License-Identifier: Apache-2.0
#include "store_cli/tree.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

namespace verbena::store_cli {
namespace {

namespace fs = std::filesystem;

// One directory; those in it are added to `folders`.
void list_folder(const fs::path& folder, const fs::path& below, Tree& tree,
                 std::vector<fs::path>& folders) {
  std::error_code error;
  for (fs::directory_iterator at(folder / below, error); !error && at != fs::directory_iterator();
       at.increment(error)) {
    const fs::path relative = below / at->path().filename();
    std::error_code wrong;
    const fs::file_status status = at->symlink_status(wrong);
    if (wrong) {
      tree.problems.push_back(fmt::format("{}: {}", at->path().string(), wrong.message()));
    } else if (fs::is_directory(status)) {
      folders.push_back(relative);
    } else if (!fs::is_regular_file(status)) {
      tree.skipped.push_back(at->path().string());
    } else {
      const auto size = at->file_size(wrong);
      tree.files.push_back({at->path().string(), relative.string(), wrong ? 0 : size});
    }
  }
  if (error) {
    tree.problems.push_back(
        fmt::format("{}: cannot be read: {}", (folder / below).string(), error.message()));
  }
}

}  // namespace

Result<Tree, std::string> list_tree(const std::string& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    return fail(fmt::format("{}: {}", folder, error ? error.message() : "is not a directory"));
  }
  Tree tree;
  std::vector<fs::path> folders{fs::path()};
  while (!folders.empty()) {
    const fs::path next = std::move(folders.back());
    folders.pop_back();
    list_folder(folder, next, tree, folders);
  }
  std::ranges::sort(tree.files, {}, &TreeFile::relative);
  std::ranges::sort(tree.skipped);
  return tree;
}

void tell_problems(const Tree& tree, Report& report) {
  for (const std::string& path : tree.skipped) {
    report.note(path + ": skipped: neither a regular file nor a directory");
  }
  for (const std::string& problem : tree.problems) report.error(kNotDone, "io", problem);
}

std::string as_prefix(std::string_view prefix) {
  std::string text(prefix);
  if (!text.empty() && !text.ends_with('/')) text += '/';
  return text;
}

Result<void, std::string> check_relative(std::string_view name) {
  constexpr size_t kLongest = 255;
  if (name.empty()) return fail(std::string("the name of the file would be empty"));
  if (name.starts_with('/')) return fail(std::string("the name is that of an absolute path"));
  while (true) {
    const size_t slash = std::min(name.find('/'), name.size());
    const std::string_view part = name.substr(0, slash);
    if (part.empty()) return fail(std::string("the name has an empty part or ends with '/'"));
    if (part == "." || part == "..") {
      return fail(fmt::format("the name has the part '{}'", part));
    }
    if (part.size() > kLongest) {
      return fail(fmt::format("the name has a part of more than {} bytes", kLongest));
    }
    if (slash == name.size()) return {};
    name.remove_prefix(slash + 1);
  }
}

Result<TargetTree, std::string> TargetTree::open(const std::string& folder) {
  TargetTree tree;
  tree.shown_ = folder;
  std::error_code error;
  fs::create_directories(folder, error);
  if (!error) {
    tree.folder_.reset(::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    if (tree.folder_.valid()) return tree;
    error.assign(errno, std::generic_category());
  }
  return fail(fmt::format("{}: cannot be created: {}", folder, error.message()));
}

std::string TargetTree::path_of(std::string_view relative) const {
  return (fs::path(shown_) / relative).string();
}

Result<UniqueFd, std::string> TargetTree::folder_of(std::string_view relative) const {
  UniqueFd folder(::openat(folder_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  size_t done = 0;
  for (size_t slash = relative.find('/'); slash != std::string_view::npos && folder.valid();
       slash = relative.find('/', done)) {
    const std::string part(relative.substr(done, slash - done));
    done = slash + 1;
    if (::mkdirat(folder.get(), part.c_str(), 0777) != 0 && errno != EEXIST) {
      folder.reset();
      break;
    }
    folder = UniqueFd(
        ::openat(folder.get(), part.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  }
  if (folder.valid()) return folder;
  const int error = errno;
  const bool link = error == ELOOP || error == ENOTDIR;
  return fail(fmt::format("{}: cannot be created: {}{}", path_of(relative.substr(0, done)),
                          std::strerror(error),
                          link ? "; links in the target directory are not followed" : ""));
}

}  // namespace verbena::store_cli
