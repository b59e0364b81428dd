// SPDX-License-Identifier: Apache-2.0
#include "transfer/path.h"

#include <algorithm>

#include "base/utf8.h"

namespace verbena::transfer {
namespace {

// Files that are not complete have such names (sink.h): nobody else's.
constexpr std::string_view kOurPrefix = ".verbena-";

bool is_control(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 || byte == 0x7f;
}

const char* wrong_with_part(std::string_view part) {
  if (part.empty()) return "has an empty part";
  if (part == "." || part == "..") return "has a part that leads elsewhere ('.' or '..')";
  if (part.size() > kMaxPartBytes) return "has a part of more than 255 bytes";
  if (part.starts_with(kOurPrefix)) return "has a part that begins with '.verbena-'";
  return nullptr;
}

}  // namespace

const char* wrong_with_path(std::string_view path) {
  if (path.empty()) return "is empty";
  if (path.size() > kMaxPathBytes) return "is longer than 4000 bytes";
  if (path.front() == '/') return "is absolute";
  if (std::ranges::any_of(path, is_control)) return "has control characters";
  while (true) {
    const size_t end = path.find('/');
    if (const char* const wrong = wrong_with_part(path.substr(0, end))) return wrong;
    if (end == std::string_view::npos) return nullptr;
    path.remove_prefix(end + 1);
  }
}

std::string shown(std::string_view path) {
  constexpr size_t kLongest = 200;
  std::string text;
  while (!path.empty() && text.size() < kLongest) {
    std::string_view rest = path;
    const uint32_t character = take_character(rest);
    if (character == 0) rest = path.substr(1);
    if (is_control_character(character) || is_direction_mark(character)) {
      text += '?';
    } else {
      text += path.substr(0, path.size() - rest.size());
    }
    path = rest;
  }
  if (!path.empty()) text += "...";
  return text;
}

}  // namespace verbena::transfer
