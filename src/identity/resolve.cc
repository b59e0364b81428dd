// SPDX-License-Identifier: Apache-2.0
#include "identity/resolve.h"

#include <algorithm>
#include <cstring>
#include <deque>

namespace verbena::identity {
namespace {

constexpr int kMostLinks = 40;  // as the kernel

[[nodiscard]] bool is_at_or_under(std::string_view path, std::string_view root) {
  return path.starts_with(root) && (path.size() == root.size() || path[root.size()] == '/');
}

// Puts the parts of a path before those that are left.
void put_first(std::deque<std::string>& parts, std::string_view path) {
  std::deque<std::string> found;
  while (!path.empty()) {
    const size_t end = std::min(path.find('/'), path.size());
    if (end > 0) found.emplace_back(path.substr(0, end));
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  parts.insert(parts.begin(), found.begin(), found.end());
}

void go_up(std::string& path) { path.erase(std::min(path.rfind('/'), path.size())); }

}  // namespace

bool is_in_roots(std::string_view path) {
  const auto under = [&](std::string_view root) { return is_at_or_under(path, root); };
  return std::ranges::any_of(kShownRoots, under) || std::ranges::any_of(kHiddenRoots, under);
}

bool may_lead_to_roots(const char* path) {
  return std::strstr(path, "infiniband") != nullptr ||
         std::strstr(path, "devices/verbena") != nullptr || std::strncmp(path, "verbena", 7) == 0;
}

Resolved resolve(const Tree& tree, std::string_view path, Follow follow) {
  // A '/' at the end asks for what a link leads to.
  if (path.ends_with('/')) follow = Follow::kAll;
  std::deque<std::string> parts;
  put_first(parts, path);
  std::string at;
  bool touched = false;
  int links = 0;
  while (!parts.empty()) {
    const std::string part = std::move(parts.front());
    parts.pop_front();
    const bool inside = is_in_roots(at);
    touched = touched || inside;
    if (touched && !inside && !may_lead_to_roots(part.c_str()) &&
        std::ranges::none_of(parts, may_lead_to_roots, &std::string::c_str)) {
      // The kernel knows the links that are there.
      at += '/' + part;
      for (const std::string& rest : parts) at += '/' + rest;
      return {Resolved::Kind::kElsewhere, at};
    }
    if (part == "." || part == "..") {
      // What is missing has nothing above it.
      if (inside && tree.find(at) == nullptr) return {Resolved::Kind::kInside, at};
      if (part == "..") go_up(at);
      continue;
    }
    at += '/' + part;
    const TreeNode* const node = tree.find(at);
    if (node == nullptr || node->type != TreeNode::Type::kLink) continue;
    touched = true;
    if (parts.empty() && follow == Follow::kNotTheLast) break;
    if (++links > kMostLinks) return {Resolved::Kind::kInside, at};
    put_first(parts, node->content);
    go_up(at);
  }
  if (is_in_roots(at)) return {Resolved::Kind::kInside, at};
  if (!touched) return {};
  return {Resolved::Kind::kElsewhere, at.empty() ? "/" : at};
}

}  // namespace verbena::identity
