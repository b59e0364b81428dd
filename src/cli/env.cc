// SPDX-License-Identifier: Apache-2.0
#include "cli/env.h"

namespace verbena::cli {
namespace {

// In single quotes nothing means anything but the end of the quotes; in fish a backslash, too, and
// in csh a '!' even there.
[[nodiscard]] std::string quoted(std::string_view text, Shell shell) {
  std::string out = "'";
  for (const char letter : text) {
    if (letter == '\'') {
      out += shell == Shell::kFish ? "\\'" : "'\\''";
    } else if ((letter == '\\' && shell == Shell::kFish) ||
               (letter == '!' && shell == Shell::kCsh)) {
      out += '\\';
      out += letter;
    } else {
      out += letter;
    }
  }
  return out + "'";
}

}  // namespace

Result<Shell, std::string> shell_named(std::string_view name) {
  if (name == "sh" || name == "bash" || name == "zsh") return Shell::kPosix;
  if (name == "fish") return Shell::kFish;
  if (name == "csh" || name == "tcsh") return Shell::kCsh;
  return fail("--shell is '" + std::string(name) +
              "'; valid values: sh, bash, zsh, fish, csh, tcsh");
}

std::string assignments(const Environment& before, const Environment& after, Shell shell) {
  std::string lines;
  for (const auto& [name, value] : after) {
    const auto was = before.find(name);
    if (was != before.end() && was->second == value) continue;
    switch (shell) {
      case Shell::kPosix: lines += "export " + name + '=' + quoted(value, shell) + "\n"; break;
      case Shell::kFish:  lines += "set -gx " + name + ' ' + quoted(value, shell) + "\n"; break;
      case Shell::kCsh:   lines += "setenv " + name + ' ' + quoted(value, shell) + ";\n"; break;
    }
  }
  return lines;
}

}  // namespace verbena::cli
