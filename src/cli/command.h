// SPDX-License-Identifier: Apache-2.0
// A command of `verbena`: the words it takes, its help, and what it does. Words mean what they say:
// nothing in a value is special.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cli/completion.h"

namespace verbena::cli {

class Command {
 public:
  // The first line of `about` is what the list of commands shows.
  Command(std::string name, std::string about);

  // `names` as in "-d,--data". Options are shown in the order in which they are added.
  Command& flag(std::string_view names, bool& to, std::string about);
  // `value` is what the help calls the word that follows; given at most once.
  Command& option(std::string_view names, std::string& to, std::string value, std::string about);
  // For an option whose empty value is not as if it were not given.
  Command& option(std::string_view names, std::optional<std::string>& to, std::string value,
                  std::string about);
  Command& option(std::string_view names, double& to, std::string value, std::string about);
  // Any number of times.
  Command& list(std::string_view names, std::vector<std::string>& to, std::string value,
                std::string about);
  // Words that are no options, in order.
  Command& word(std::string name, std::string& to, std::string about);
  Command& optional_word(std::string name, std::string& to, std::string about);
  // All that are left, at least one. `shown`: how the first line of the help has them.
  Command& words(std::string name, std::string shown, std::vector<std::string>& to,
                 std::string about);
  // The same, and none will do.
  Command& optional_words(std::string name, std::string shown, std::vector<std::string>& to,
                          std::string about);
  // From the first word on that is no option and none of the above, or from behind "--", everything
  // is another program's.
  Command& program(std::string shown, std::vector<std::string>& to);
  // An option that other commands have: not in the help, and answered with `why` not.
  Command& refuse(std::string_view names, std::string value, std::string why);
  // Both cannot be given.
  Command& exclude(std::string_view one, std::string_view other);

  // All values that an option of these takes, for those who type it.
  Command& choices(std::string_view name, std::vector<std::string> values);

  Command& footer(std::string text);
  Command& action(std::function<int()> run);  // answers the exit status
  Command& usage_status(int status);

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] std::string summary() const { return about_.substr(0, about_.find('\n')); }
  [[nodiscard]] std::string help() const;
  enum class Parsed : uint8_t { kAll, kHelpWanted };
  // Stores what the words say; the error is what is wrong with them.
  [[nodiscard]] Result<Parsed, std::string> parse(std::span<const std::string> given);
  // What may follow the words as the current one, which begins so (command_completion.cc).
  [[nodiscard]] Completion complete(std::span<const std::string> given, const std::string& current);
  // Does what the words say; answers the exit status.
  [[nodiscard]] int run(std::span<const std::string> given);

 private:
  // Stores a value, or says what is wrong with it.
  using Store = std::function<Result<void, std::string>(const std::string&)>;
  struct Option {
    std::vector<std::string> names = {};  // the last one is how it is called
    std::string value = {};               // empty: a flag
    std::string about = {};
    Store store = {};
    bool repeats = false;
    bool given = false;
    std::string refusal = {};  // not empty: why it cannot be given
    std::vector<std::string> choices = {};
  };
  struct Word {
    std::string name = {};
    std::string shown = {};
    std::string about = {};
    Store store = {};
    bool required = true;
    bool repeats = false;
    bool given = false;
  };

  Command& add(std::string_view names, Option option);
  [[nodiscard]] Option* find(std::string_view name);
  // `given` begins with an option: takes it and its value off.
  [[nodiscard]] Result<void, std::string> take_option(std::span<const std::string>& given);
  [[nodiscard]] Result<void, std::string> take_letters(std::span<const std::string>& given);
  [[nodiscard]] Result<void, std::string> set(Option& option, const std::string& value);
  [[nodiscard]] Result<void, std::string> take_word(const std::string& word);
  [[nodiscard]] bool wants_word() const;
  void offer_value(const Option& option, Completion& completion) const;
  void offer_options(Completion& completion) const;
  [[nodiscard]] Result<void, std::string> check_all() const;

  std::string name_;
  std::string about_;
  std::string footer_;
  std::vector<Option> options_;
  std::vector<Word> words_;
  std::vector<std::pair<std::string, std::string>> excluded_;
  std::string program_shown_;
  std::vector<std::string>* program_ = nullptr;
  std::function<int()> action_;
  int usage_status_;
};

// Lines of a help: a name, and what there is to say about it beside.
[[nodiscard]] std::string help_entry(const std::string& name, const std::string& about,
                                     size_t column);

}  // namespace verbena::cli
