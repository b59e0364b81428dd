// SPDX-License-Identifier: Apache-2.0
// What can be set for `verbena serve`: by an option, an environment variable or a line of a TOML
// file, in this order. One table has all of it.
#pragma once

#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "server/service.h"

namespace verbena::store_cli {

struct ServeSettings {
  server::ServiceOptions service{};
  std::string memory{};  // as it was given
  std::string secret_file{};
  bool secret_exposed = false;  // others may read it
};

struct Setting {
  std::string_view key;    // of the file: max_sessions; the option is --max-sessions, the variable
                           // VERBENA_SERVE_MAX_SESSIONS
  std::string_view value;  // as the help calls it; empty: yes or no
  std::string_view about;
  Result<void, std::string> (*set)(ServeSettings& settings, const std::string& value);
};
[[nodiscard]] std::span<const Setting> serve_settings();
[[nodiscard]] bool may_repeat(std::string_view key);

[[nodiscard]] std::string option_of(const Setting& setting);    // "--max-sessions"
[[nodiscard]] std::string variable_of(const Setting& setting);  // "VERBENA_SERVE_MAX_SESSIONS"

// By key; some may have several values.
using Given = std::map<std::string, std::vector<std::string>, std::less<>>;
// Of a TOML file; the error has the file and the line.
[[nodiscard]] Result<Given, std::string> read_settings_file(const std::string& path);
[[nodiscard]] Given settings_of_environment();
// All of them together, with what follows from them (the secret is read). `options` are said
// first, `file` last.
[[nodiscard]] Result<ServeSettings, std::string> combine(const Given& options,
                                                         const Given& environment,
                                                         const Given& file);

}  // namespace verbena::store_cli
