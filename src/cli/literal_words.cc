// SPDX-License-Identifier: Apache-2.0
#include "cli/literal_words.h"

namespace verbena::cli {
namespace {

constexpr char kMark = '\x01';

}  // namespace

std::string shielded(std::string word) {
  // Also if somebody begins a word with the mark: one is taken off again.
  if (!word.empty() && (word.front() == '[' || word.front() == kMark)) word.insert(0, 1, kMark);
  return word;
}

void unshield_words(CLI::App& app) {
  for (CLI::Option* const option : app.get_options()) {
    option->transform(CLI::Validator(
        [](std::string& word) {
          if (!word.empty() && word.front() == kMark) word.erase(0, 1);
          return std::string();
        },
        ""));
  }
  for (CLI::App* const below : app.get_subcommands({})) unshield_words(*below);
}

}  // namespace verbena::cli
