// SPDX-License-Identifier: Apache-2.0
// What the user chose on the command line, for all commands that show or run something on the
// device, and the environment that carries it to the libraries.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace verbena::cli {

// How a program is shown the device's files under /sys and /dev.
enum class View : uint8_t { kPreload, kNamespace, kNone, kAuto };
[[nodiscard]] std::optional<View> view_named(std::string_view name);

// Empty: not given, and the variable stays as it is.
struct Choices {
  std::string name;
  std::string identity;
  std::vector<std::string> addresses;
  std::string mtu;
  std::string link;
  std::string receive_buffer;
  std::optional<std::string> secret;  // an empty name is refused, or nothing would be protected
  bool verbose = false;
  bool quiet = false;
  std::string counters;
  bool rsockets = false;
};

using Environment = std::map<std::string, std::string, std::less<>>;

// The caller's variables.
[[nodiscard]] Environment this_environment();
// Sets VERBENA_*, and preloads the library that makes rsockets of TCP sockets if that is wanted, by
// its name: it lies beside the others. What is wrong with a choice, or with a variable that was
// there, is said.
[[nodiscard]] Result<void, std::string> set_variables(const Choices& choices, Environment& to);
// For a person, of what was set: what should be otherwise. Empty: nothing.
[[nodiscard]] std::string warning_about(const Environment& environment);
// Puts the libraries before others, and the library for the view before all; once, however often it
// is done.
void use_libraries(const std::string& directory, View view, Environment& in);

}  // namespace verbena::cli
