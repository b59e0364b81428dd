// SPDX-License-Identifier: Apache-2.0
// The parser of command lines takes "[a,b]" for a list of a and b, where an option or a positional
// may have several values: `verbena rm '[a]'` would remove a. Words are as they are here.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

namespace verbena::cli {

// The word in a form that the parser leaves alone.
[[nodiscard]] std::string shielded(std::string word);
// All options of the command, and of those below it, give back the word.
void unshield_words(CLI::App& app);

}  // namespace verbena::cli
