// SPDX-License-Identifier: Apache-2.0
#include "cli/command_line.h"

#include <algorithm>
#include <cstdio>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cli/command.h"
#include "cli/completion.h"
#include "cli/device_commands.h"
#include "cli/store_commands.h"
#include "cli/usage.h"

namespace verbena::cli {
namespace {

constexpr const char* kAbout =
    R"text(RDMA on any machine: programs that use libibverbs run on a device in software, with no RDMA
hardware, no kernel module, no root and no daemon; and an object store that verifies its data.

  verbena devices                                  show the device as programs see it
  verbena run -- ibv_devinfo -v                    run a program on it
  verbena run -- ibv_rc_pingpong -g 0 &            two programs; -g is the index of an address
  verbena run -- ibv_rc_pingpong -g 0 127.0.0.1    listed by `verbena devices`
  eval "$(verbena env)"                            for all programs of this shell

  verbena put --data DIR photo.jpg photos/1        store a file as an object
  verbena get --data DIR photos/1 photo.jpg        get it back, verified

Usage: verbena COMMAND [OPTIONS]

Options:
  -h,--help   print this help and exit
  --version   print the version and exit

)text";

constexpr size_t kListColumn = 12;

[[nodiscard]] std::string help(const std::vector<Command>& commands) {
  std::string text = std::string(kAbout) + "The device:\n";
  for (const Command& command : commands) {
    text += help_entry(command.name(), command.summary(), kListColumn);
  }
  text += "\nObject store, in a directory or on a server:\n";
  for (const StoreCommand& command : kStoreCommands) {
    text += help_entry(std::string(command.name), std::string(command.summary), kListColumn);
  }
  return text + "\nSee verbena COMMAND --help, verbena(1) and verbena-store(1).\n";
}

[[nodiscard]] bool is_store_command(std::string_view name) {
  return std::ranges::find(kStoreCommands, name, &StoreCommand::name) != kStoreCommands.end();
}

[[nodiscard]] std::string names_of(const std::vector<Command>& commands) {
  std::string names;
  for (const Command& command : commands) names += (names.empty() ? "" : ", ") + command.name();
  for (const StoreCommand& command : kStoreCommands) names.append(", ").append(command.name);
  return names;
}

// The answer of `verbena __complete`, of which these are the words.
[[nodiscard]] int complete(std::vector<Command>& commands, std::span<const std::string> words,
                           int count, char** arguments) {
  if (words.empty()) return kUsage;
  if (words.size() == 1) {
    Completion completion;
    completion.current = words.front();
    for (const Command& command : commands) {
      completion.candidates.push_back({command.name(), command.summary()});
    }
    for (const StoreCommand& command : kStoreCommands) {
      completion.candidates.push_back({std::string(command.name), std::string(command.summary)});
    }
    for (const char* const option : {"--help", "--version"}) {
      if (words.front().starts_with('-')) completion.candidates.push_back({option, {}});
    }
    keep_matching(completion);
    return print_completion(completion);
  }
  if (is_store_command(words.front())) return run_store_command(count, arguments);
  const auto command = std::ranges::find(commands, words.front(), &Command::name);
  if (command == commands.end()) return print_completion({});
  return print_completion(command->complete(words.subspan(1, words.size() - 2), words.back()));
}

}  // namespace

int run_command_line(int count, char** arguments) {
  DeviceOptions options;
  std::vector<Command> commands = device_commands(options);
  if (count < 2) {
    std::fputs(help(commands).c_str(), stderr);
    return kUsage;
  }
  const std::vector<std::string> words(arguments + 1, arguments + count);
  const std::string& first = words.front();
  if (first == "--help" || first == "-h") return print_help(help(commands));
  if (first == "--version") return print_help("verbena " VERBENA_VERSION "\n");
  if (first.starts_with('-')) return usage("", "unknown option " + first, kUsage);
  if (is_store_command(first)) return run_store_command(count, arguments);
  if (first == kCompleteCommand) {
    return complete(commands, std::span(words).subspan(1), count, arguments);
  }
  const auto command = std::ranges::find(commands, first, &Command::name);
  if (command != commands.end()) return command->run(std::span(words).subspan(1));
  return usage("", "unknown command '" + first + "'; commands: " + names_of(commands), kUsage);
}

}  // namespace verbena::cli
