// SPDX-License-Identifier: Apache-2.0
// Where a path leads that goes through the tree, with its links and ".." taken as the kernel takes
// them: into the tree, or out of it again.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "identity/tree.h"

namespace verbena::identity {

// Whether a path is at or under one of the roots that we show or hide. Without "." and "..".
[[nodiscard]] bool is_in_roots(std::string_view path);
// Whether a path can lead into them at all: quick, and seldom wrong.
[[nodiscard]] bool may_lead_to_roots(const char* path);

struct Resolved {
  enum class Kind : uint8_t {
    kForeign,    // it never touches the roots
    kInside,     // `path` is in the roots, there or not
    kElsewhere,  // it leads out of them: `path` is for the kernel
  };
  Kind kind = Kind::kForeign;
  std::string path = {};
};

enum class Follow : uint8_t { kAll, kNotTheLast };
// `path` is absolute. Of links that lead to one another, one is the answer.
[[nodiscard]] Resolved resolve(const Tree& tree, std::string_view path, Follow follow);

}  // namespace verbena::identity
