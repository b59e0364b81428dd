// SPDX-License-Identifier: Apache-2.0
// Which words a command takes where the user is.
#include <algorithm>

#include "cli/command.h"

namespace verbena::cli {
namespace {

using Kind = Completion::Kind;

// What goes by this name in the help of all commands.
[[nodiscard]] Kind kind_of(std::string_view value) {
  if (value == "FILE") return Kind::kFiles;
  if (value == "DIR" || value == "NEW") return Kind::kDirectories;
  if (value == "OBJECT" || value == "FROM" || value == "TO" || value == "PREFIX") {
    return Kind::kObjects;
  }
  return Kind::kWords;
}

// The name of the word at this position among several that are called "FILE OBJECT".
[[nodiscard]] std::string_view name_at(std::string_view names, size_t position) {
  for (; position > 0 && names.find(' ') != std::string_view::npos; --position) {
    names.remove_prefix(names.find(' ') + 1);
  }
  return names.substr(0, names.find(' '));
}

[[nodiscard]] std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

}  // namespace

Command& Command::choices(std::string_view name, std::vector<std::string> values) {
  find(name)->choices = std::move(values);
  return *this;
}

void Command::offer_value(const Option& option, Completion& completion) const {
  completion.kind = option.choices.empty() ? kind_of(option.value) : Kind::kWords;
  for (const std::string& choice : option.choices) completion.candidates.push_back({choice, {}});
}

void Command::offer_options(Completion& completion) const {
  completion.candidates.push_back({"--help", "print this help and exit"});
  for (const Option& option : options_) {
    if (!option.refusal.empty()) continue;
    completion.candidates.push_back({option.names.back(), first_line(option.about)});
  }
}

Completion Command::complete(std::span<const std::string> given, const std::string& current) {
  Completion completion;
  completion.current = current;
  bool options = true;
  size_t word = 0;      // which of words_ comes next
  size_t position = 0;  // among those that repeat
  while (!given.empty()) {
    const std::string& next = given.front();
    const bool is_end = options && next == "--";
    const bool is_word = !options || next.size() < 2 || next.front() != '-';
    if (program_ != nullptr && (is_end || (is_word && word >= words_.size()))) {
      completion.kind = Kind::kProgram;
      completion.program_words = given.size() + (is_end ? 0 : 1);
      return completion;
    }
    given = given.subspan(1);
    if (is_end) {
      options = false;
    } else if (is_word) {
      const bool repeats = word < words_.size() && words_[word].repeats;
      ++(repeats ? position : word);
    } else {
      const size_t equals = next.starts_with("--") ? next.find('=') : std::string::npos;
      // Of letters only the last can have its value in the next word.
      const std::string name =
          next.starts_with("--") ? next.substr(0, equals) : std::string{'-', next.back()};
      const Option* const option = find(name);
      if (option == nullptr || option->value.empty()) continue;
      if (equals != std::string::npos) {
        completion.values.emplace_back(option->names.back(), next.substr(equals + 1));
      } else if (given.empty()) {
        offer_value(*option, completion);
        keep_matching(completion);
        return completion;
      } else {
        completion.values.emplace_back(option->names.back(), given.front());
        given = given.subspan(1);
      }
    }
  }
  if (options && current.starts_with("--") && current.find('=') != std::string::npos) {
    completion.before = current.substr(0, current.find('=') + 1);
    completion.current = current.substr(completion.before.size());
    const Option* const option = find(current.substr(0, current.find('=')));
    if (option != nullptr) offer_value(*option, completion);
  } else if (options && current.starts_with('-')) {
    offer_options(completion);
  } else if (word < words_.size()) {
    completion.kind = kind_of(name_at(words_[word].name, position));
  } else if (program_ != nullptr) {
    completion.kind = Kind::kProgram;
    completion.program_words = 1;
  }
  keep_matching(completion);
  return completion;
}

}  // namespace verbena::cli
