// SPDX-License-Identifier: Apache-2.0
#include "cli/command.h"

#include <algorithm>
#include <charconv>
#include <cstdio>
#include <utility>

#include "base/check.h"
#include "cli/usage.h"

namespace verbena::cli {
namespace {

using Done = Result<void, std::string>;

constexpr size_t kColumn = 18;

[[nodiscard]] bool asks_for_help(std::string_view word) { return word == "--help" || word == "-h"; }

[[nodiscard]] std::vector<std::string> split_names(std::string_view names) {
  std::vector<std::string> found;
  while (!names.empty()) {
    const size_t end = std::min(names.find(','), names.size());
    found.emplace_back(names.substr(0, end));
    names.remove_prefix(std::min(end + 1, names.size()));
  }
  return found;
}

[[nodiscard]] std::string joined(const std::vector<std::string>& names) {
  std::string line;
  for (const std::string& name : names) line += (line.empty() ? "" : ",") + name;
  return line;
}

// Into a string, or an optional one.
template <class To>
[[nodiscard]] auto keep_in(To& to) {
  return [&to](const std::string& given) {
    to = given;
    return Done();
  };
}

}  // namespace

std::string help_entry(const std::string& name, const std::string& about, size_t column) {
  std::string text = "  " + name;
  if (text.size() >= column) {
    text += '\n';
    text.append(column, ' ');
  } else {
    text.append(column - text.size(), ' ');
  }
  for (const char letter : about) {
    text += letter;
    if (letter == '\n') text.append(column, ' ');
  }
  return text + '\n';
}

Command::Command(std::string name, std::string about)
    : name_(std::move(name)), about_(std::move(about)), usage_status_(kUsage) {}

Command& Command::add(std::string_view names, Option option) {
  option.names = split_names(names);
  options_.push_back(std::move(option));
  return *this;
}

Command& Command::flag(std::string_view names, bool& to, std::string about) {
  return add(names, {.about = std::move(about),
                     .store =
                         [&to](const std::string&) {
                           to = true;
                           return Done();
                         },
                     .repeats = true});
}

Command& Command::option(std::string_view names, std::string& to, std::string value,
                         std::string about) {
  return add(names, {.value = std::move(value), .about = std::move(about), .store = keep_in(to)});
}

Command& Command::option(std::string_view names, std::optional<std::string>& to, std::string value,
                         std::string about) {
  return add(names, {.value = std::move(value), .about = std::move(about), .store = keep_in(to)});
}

Command& Command::option(std::string_view names, double& to, std::string value, std::string about) {
  return add(names, {.value = std::move(value),
                     .about = std::move(about),
                     .store = [&to](const std::string& given) -> Done {
                       const char* const end = given.data() + given.size();
                       const auto [at, error] = std::from_chars(given.data(), end, to);
                       if (error != std::errc{} || at != end) return fail("is not a number");
                       return {};
                     }});
}

Command& Command::list(std::string_view names, std::vector<std::string>& to, std::string value,
                       std::string about) {
  return add(names, {.value = std::move(value),
                     .about = std::move(about),
                     .store =
                         [&to](const std::string& given) {
                           to.push_back(given);
                           return Done();
                         },
                     .repeats = true});
}

Command& Command::word(std::string name, std::string& to, std::string about) {
  std::string shown = name;
  words_.push_back({.name = std::move(name),
                    .shown = std::move(shown),
                    .about = std::move(about),
                    .store = [&to](const std::string& given) {
                      to = given;
                      return Done();
                    }});
  return *this;
}

Command& Command::optional_word(std::string name, std::string& to, std::string about) {
  word(std::move(name), to, std::move(about));
  words_.back().required = false;
  words_.back().shown = '[' + words_.back().name + ']';
  return *this;
}

Command& Command::words(std::string name, std::string shown, std::vector<std::string>& to,
                        std::string about) {
  words_.push_back({.name = std::move(name),
                    .shown = std::move(shown),
                    .about = std::move(about),
                    .store =
                        [&to](const std::string& given) {
                          to.push_back(given);
                          return Done();
                        },
                    .repeats = true});
  return *this;
}

Command& Command::optional_words(std::string name, std::string shown, std::vector<std::string>& to,
                                 std::string about) {
  words(std::move(name), std::move(shown), to, std::move(about));
  words_.back().required = false;
  return *this;
}

Command& Command::program(std::string shown, std::vector<std::string>& to) {
  program_shown_ = std::move(shown);
  program_ = &to;
  return *this;
}

Command& Command::refuse(std::string_view names, std::string value, std::string why) {
  return add(names, {.value = std::move(value), .refusal = std::move(why)});
}

Command& Command::exclude(std::string_view one, std::string_view other) {
  VERBENA_CHECK(find(one) != nullptr && find(other) != nullptr);
  excluded_.emplace_back(one, other);
  return *this;
}

Command& Command::footer(std::string text) {
  footer_ = std::move(text);
  return *this;
}

Command& Command::action(std::function<int()> run) {
  action_ = std::move(run);
  return *this;
}

Command& Command::usage_status(int status) {
  usage_status_ = status;
  return *this;
}

std::string Command::help() const {
  std::string line = "verbena " + name_ + " [OPTIONS]";
  for (const Word& word : words_) line += ' ' + word.shown;
  if (program_ != nullptr) line += ' ' + program_shown_;
  std::string text = about_ + "\nUsage: " + line + "\n\n";
  for (const Word& word : words_) text += help_entry(word.name, word.about, kColumn);
  if (!words_.empty()) text += '\n';
  text += "Options:\n" + help_entry("-h,--help", "print this help and exit", kColumn);
  for (const Option& option : options_) {
    if (!option.refusal.empty()) continue;
    const std::string value = option.value.empty() ? "" : ' ' + option.value;
    text += help_entry(joined(option.names) + value, option.about, kColumn);
  }
  return footer_.empty() ? text : text + '\n' + footer_ + '\n';
}

Command::Option* Command::find(std::string_view name) {
  const auto found = std::ranges::find_if(options_, [&](const Option& option) {
    return std::ranges::find(option.names, name) != option.names.end();
  });
  return found == options_.end() ? nullptr : &*found;
}

Done Command::set(Option& option, const std::string& value) {
  if (!option.refusal.empty()) return fail(option.names.back() + ": " + option.refusal);
  if (option.given && !option.repeats) return fail(option.names.back() + " is given twice");
  option.given = true;
  if (auto stored = option.store(value); !stored) {
    return fail(option.names.back() + " is '" + value + "', which " + stored.error());
  }
  return {};
}

// --name, --name=VALUE, or --name VALUE.
Done Command::take_option(std::span<const std::string>& given) {
  const std::string& word = given.front();
  const size_t equals = word.find('=');
  const std::string name = word.substr(0, equals);
  Option* const option = find(name);
  if (option == nullptr) return fail("unknown option " + name);
  given = given.subspan(1);
  if (option->value.empty()) {
    if (equals != std::string::npos) return fail(name + " takes no value");
    return set(*option, "");
  }
  if (equals != std::string::npos) return set(*option, word.substr(equals + 1));
  if (given.empty()) return fail(name + " needs a value: " + option->value);
  const std::string& value = given.front();
  given = given.subspan(1);
  return set(*option, value);
}

// -q, -qf, -dVALUE, or -d VALUE.
Done Command::take_letters(std::span<const std::string>& given) {
  const std::string& word = given.front();
  given = given.subspan(1);
  for (size_t at = 1; at < word.size(); ++at) {
    const std::string name{'-', word[at]};
    Option* const option = find(name);
    if (option == nullptr) return fail("unknown option " + name);
    if (option->value.empty()) {
      if (auto done = set(*option, ""); !done) return done;
      continue;
    }
    if (at + 1 < word.size()) return set(*option, word.substr(at + 1));
    if (given.empty()) return fail(name + " needs a value: " + option->value);
    const std::string& value = given.front();
    given = given.subspan(1);
    return set(*option, value);
  }
  return {};
}

Done Command::take_word(const std::string& word) {
  for (Word& place : words_) {
    if (place.given && !place.repeats) continue;
    place.given = true;
    return place.store(word);
  }
  return fail("unexpected argument '" + word + "'");
}

bool Command::wants_word() const {
  return std::ranges::any_of(words_, [](const Word& word) { return !word.given || word.repeats; });
}

Done Command::check_all() const {
  for (const Word& word : words_) {
    if (word.required && !word.given) return fail(word.name + " is missing");
  }
  const auto is_given = [&](const std::string& name) {
    return std::ranges::any_of(options_, [&](const Option& option) {
      return option.given && std::ranges::find(option.names, name) != option.names.end();
    });
  };
  for (const auto& [one, other] : excluded_) {
    if (!is_given(one) || !is_given(other)) continue;
    std::string what = one;
    what.append(" and ").append(other).append(" cannot be used together");
    return fail(std::move(what));
  }
  return {};
}

Result<Command::Parsed, std::string> Command::parse(std::span<const std::string> given) {
  bool options = true;
  while (!given.empty()) {
    const std::string& word = given.front();
    const bool is_end = options && word == "--";
    const bool is_word = !options || word.size() < 2 || word.front() != '-';
    if (program_ != nullptr && (is_end || (is_word && !wants_word()))) {
      program_->assign(given.begin() + (is_end ? 1 : 0), given.end());
      break;
    }
    Done done;
    if (is_end) {
      options = false;
      given = given.subspan(1);
    } else if (is_word) {
      done = take_word(word);
      given = given.subspan(1);
    } else {
      if (asks_for_help(word)) return Parsed::kHelpWanted;
      done = word[1] == '-' ? take_option(given) : take_letters(given);
    }
    if (!done) return fail(done.error());
  }
  if (const auto checked = check_all(); !checked) return fail(checked.error());
  return Parsed::kAll;
}

int Command::run(std::span<const std::string> given) {
  const auto parsed = parse(given);
  if (!parsed) return usage(name_, parsed.error(), usage_status_);
  return *parsed == Parsed::kHelpWanted ? print_help(help()) : action_();
}

}  // namespace verbena::cli
